"""The programs of the three servers, in one process."""

from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.contract import Context
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.programs import (
    COLLUSION,
    HALVES_KEPT,
    AnswerTerms,
    AskedModel,
    HiddenPart,
    Terms,
    answer,
    half_name,
    server,
)
from hedgerow.protocols.hidden.questions import DealtQuestion, join_answers, question_of
from hedgerow.protocols.run import MEMBERS, ledger_of
from hedgerow.protocols.sharing.integrate import Integrated
from hedgerow.protocols.sharing.uploaded import deal_uploads
from hedgerow.trees import grow_id3
from tests.protocols.hidden.hidden_jobs import DOMAIN, encoded, owners, plan
from tests.protocols.test_checkpoint import Shelf


def trained(of: HiddenPlan, made: Integrated, **changes: Any) -> HiddenPart:
    held = deal_uploads(of.layout, made.uploads, made.tables)
    ledger = Ledger(domain=of.domain)
    known: dict[str, Any] = {"job": Terms("hidden-tree"), "table": held, "ledger": ledger}
    with Simulator(3) as network:
        return server(Context(network, MEMBERS, of, **known | changes))


def test_shares_of_the_servers_add_up_to_the_tree_in_the_clear() -> None:
    of = plan(branching="wary")
    made = owners(of, encoded(), 2)
    found = trained(of, made)
    shares = found.shares["splits"]
    assert shares.shape[:2] == (3, 2)
    for at in range(3):
        # What server i holds second, server i+1 holds first.
        np.testing.assert_array_equal(shares[at, 1], shares[(at + 1) % 3, 0])
    whole = shares[0, 0] + shares[1, 0] + shares[2, 0]
    clear = trained(of, made, engine="clear")
    np.testing.assert_array_equal(whole, clear.shares["splits"])
    assert clear.ledger.to_json() == found.ledger.to_json()
    assert clear.leakage.to_json() == found.leakage.to_json()
    tree = grow_id3(encoded(), criterion="max", max_depth=2)
    assert int(np.flatnonzero(whole[0, 0])[0]) == tree.feature[0]


def test_no_two_trainings_have_the_same_shares() -> None:
    of = plan()
    made = owners(of, encoded())
    first, second = (trained(of, made).shares["splits"] for _ in range(2))
    assert (first != second).any()


def test_a_training_tells_how_far_it_has_come() -> None:
    of, told = plan(), []
    trained(of, owners(of, encoded()), progress=told.append)
    assert told == [{"level": at, "depth": 2, "nodes": 2**at} for at in range(3)]


def test_a_ledger_opens_with_what_is_known_before() -> None:
    of = plan()
    job = {"domain_is_public": True, "marks": [["a test", ["owner 0"]]], "seed": None}
    ledger = ledger_of(job, of)
    assert ledger.total("server 1").epsilon == 0
    assert ledger.total("owner 1").epsilon == 0
    assert ledger.total("owner 0").why == "a test"
    assert ledger.domain == DOMAIN
    assert ledger_of(job | {"domain_is_public": False}, of).domain is None
    found = trained(of, owners(of, encoded()), ledger=ledger).ledger
    assert found is ledger
    for pair in ([0, 1], [1, 2], [0, 2]):
        both = found.coalition([f"server {i}" for i in pair])
        assert both.why == COLLUSION
        assert both.epsilon == np.inf


def test_a_server_without_its_part_of_an_upload_is_refused() -> None:
    of = plan()
    made = owners(of, encoded(), 2)
    held = deal_uploads(of.layout, made.uploads, made.tables)
    for engine in ("replicated", "clear"):
        for gone in range(3):
            assert held[1].parts is not None
            left = {at: part for at, part in held[1].parts.items() if at != gone}
            with pytest.raises(HedgerowError) as caught:
                trained(
                    of,
                    made,
                    table=[held[0], type(held[1])(held[1].upload, held[1].shape, left)],
                    engine=engine,
                )
            assert caught.value.code is Code.WRONG_SHAPE
    # A table that an owner does not have cannot be dealt.
    with pytest.raises(HedgerowError) as caught:
        deal_uploads(of.layout, made.uploads, {3: made.tables[3]})
    assert caught.value.code is Code.WRONG_SHAPE


@pytest.mark.parametrize("grower", ["masks", "grouped"])
@pytest.mark.parametrize("noise", ["none", "leaves", "splits+leaves"])
def test_training_opens_what_it_declares(noise: str, grower: str) -> None:
    of = plan(noise=noise, grower=grower, epsilon=2.0)
    found = trained(of, owners(of, encoded()))
    leakage = Leakage.from_json(found.leakage.to_json(), Ledger.from_json(found.ledger.to_json()))
    assert all(row["equal"] for row in leakage.compare())
    assert leakage.what_was_learned("analyst") == []
    assert bool(leakage.what_was_learned("server")) == (grower == "grouped")


@pytest.mark.parametrize("engine", ["replicated", "clear"])
def test_halves_are_kept_before_the_servers_take_leave(engine: Any) -> None:
    of, table = plan(), encoded()
    made = trained(of, owners(of, table), engine=engine)
    shelf, asked = Shelf(stages=9), [question_of(of, table.select(DOMAIN.names, target=False))] * 2
    with Simulator(3) as network:
        found = answer(
            Context(
                network,
                MEMBERS,
                of,
                job=AnswerTerms("hidden-tree", "class"),
                table=AskedModel(
                    made.shares,
                    [DealtQuestion(48, one.parts, f"analyst {k}") for k, one in enumerate(asked)],
                ),
                ledger=made.ledger,
                stages=shelf,
                engine=engine,
            )
        )
    assert list(shelf.kept) == [HALVES_KEPT]
    assert sorted(shelf.kept[HALVES_KEPT]) == sorted(
        half_name(k, at) for k in range(2) for at in (0, 1)
    )
    first, second = (join_answers(halves) for halves in found.halves)
    np.testing.assert_array_equal(first, second)
    assert (first == table.target).mean() > 0.7
    for k in range(2):
        for at in (0, 1):
            np.testing.assert_array_equal(
                shelf.kept[HALVES_KEPT][half_name(k, at)], found.halves[k][at]
            )
