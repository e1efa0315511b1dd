"""An estimator whose result is published, is no tree, and needs no target."""

from typing import Any, ClassVar

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.estimators.hidden.base import HiddenEstimator
from hedgerow.protocols.hidden.options import ServerOptions
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from hedgerow.protocols.sharing.join import openings
from hedgerow.tables import Domain
from tests.estimators.hidden.test_tree import DOMAIN, ILL, ROWS, code_of
from tests.protocols.record_count import RECORDS, CountOptions, CountProtocol

BARE = DOMAIN.select(DOMAIN.names, target=False)
HUGE = 40.0


class RecordCount(HiddenEstimator):
    """The least that such an estimator writes."""

    _protocol = "count"
    _options_type: ClassVar[type[ServerOptions]] = CountOptions

    def __init__(
        self,
        epsilon: float = HUGE,
        domain: Domain | None = None,
        *,
        engine: str = "clear",
        n_owners: int = 1,
        partition: str = "horizontal",
        account: Any = None,
        bad_rows: str = "auto",
        random_state: int | None = None,
        insecure_domain_from_data: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.domain = domain
        self.engine = engine
        self.n_owners = n_owners
        self.partition = partition
        self.account = account
        self.bad_rows = bad_rows
        self.random_state = random_state
        self.insecure_domain_from_data = insecure_domain_from_data

    @property
    def records_(self) -> int:
        return self.model_.public["records"]


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SERVER_PROTOCOLS, "count", CountProtocol())


@pytest.mark.parametrize("domain", [DOMAIN, BARE], ids=["a target", "no target"])
@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_the_table_alone_is_read(domain: Domain, engine: str, partition: str) -> None:
    model = RecordCount(domain=domain, engine=engine, partition=partition, n_owners=2).fit(ROWS)
    assert model.records_ == len(ROWS)
    assert model.privacy_.total("public").epsilon == pytest.approx(HUGE)
    assert model.plan().releases() == tuple(model.privacy_.releases)
    joined = [one.name for one in openings([1, 1], "server")] if partition == "vertical" else []
    for audience, before in (("public", []), ("analyst", []), ("server 0", joined)):
        assert [row["name"] for row in model.what_was_learned(audience)] == [*before, RECORDS]


def test_owners_have_no_target() -> None:
    model = RecordCount(domain=BARE).fit_owners([ROWS[:50], ROWS[50:]])
    assert model.records_ == len(ROWS)
    columns = RecordCount(domain=BARE, partition="vertical")
    ids = np.arange(len(ROWS))
    assert columns.fit_owners([ROWS[["age"]], ROWS[["ward"]]], ids=[ids, ids]).records_ == len(ROWS)
    assert RecordCount(domain=DOMAIN).fit(ROWS, ILL).records_ == len(ROWS)


def test_of_too_many_records_owners_of_columns_keep_the_same() -> None:
    model = RecordCount(domain=BARE, partition="vertical", bad_rows="absorb")
    ids = np.arange(len(ROWS))
    tables, order = [ROWS[["age"]], ROWS[["ward"]].iloc[::-1]], [ids, ids[::-1]]
    assert model.fit_owners(tables, ids=order, slots=[30, 50]).records_ == 30
    assert model.owner_only_.over_capacity == 2 * len(ROWS) - 80
    assert "at most 30 rows" in str(model.privacy_)


def test_a_domain_of_the_data_and_rows_that_do_not_fit() -> None:
    drafted = RecordCount(insecure_domain_from_data=True).fit(ROWS)
    assert drafted.records_ == len(ROWS)
    assert drafted.privacy_.not_private
    short = DOMAIN.model_copy(update={"capacity": 10})
    assert code_of(RecordCount(domain=short).fit, ROWS) is Code.CAPACITY_EXCEEDED
    assert RecordCount(domain=short, bad_rows="absorb").fit(ROWS).records_ == 10
