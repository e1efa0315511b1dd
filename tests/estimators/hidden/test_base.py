"""What every estimator with a hidden model shares."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import get_tags

from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators import HiddenTreeClassifier
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from hedgerow.tables import Attribute, Domain, Target
from tests.estimators.hidden.test_tree import DOMAIN, ILL, ROWS, code_of, model_of


@pytest.mark.parametrize(("noise", "noisy"), [("none", False), ("splits+leaves", True)])
def test_tags_say_what_noise_does(noise: str, noisy: bool) -> None:
    tags = get_tags(model_of(noise=noise))
    assert tags.non_deterministic is noisy
    assert tags.classifier_tags.poor_score is noisy


def test_the_kind_is_one_that_all_parties_know() -> None:
    assert model_of()._protocol in SERVER_PROTOCOLS


def test_slots_are_random_unless_seeded() -> None:
    assert model_of()._entropy()(16) != model_of()._entropy()(16)
    first, again, other = (model_of(random_state=seed)._entropy()(16) for seed in (1, 1, 2))
    assert first == again != other


def test_a_seed_fixes_the_slots_of_all_owners() -> None:
    ids = np.arange(200)
    shares = []
    for order in (slice(None), slice(None, None, -1)):
        model = model_of(partition="vertical", random_state=3)
        with pytest.warns(HedgerowWarning, match="not private"):
            model.fit_owners(
                [ROWS[["age"]][order], ROWS[["ward"]]], [ILL[order], None], [ids[order], ids]
            )
        shares.append(model.model_.servers[0].shares["splits"])
    np.testing.assert_array_equal(*shares)


def test_a_plan_needs_no_rows_and_checks_parameters() -> None:
    assert model_of().plan(DOMAIN).n_slots == 300
    assert code_of(model_of(engine="gpu").plan, DOMAIN) is Code.BAD_PARAMETER


def test_queries_must_have_the_columns_of_the_domain() -> None:
    model = model_of().fit(ROWS, ILL)
    assert code_of(model.predict, ROWS[["age"]]) is Code.MISSING_COLUMN
    assert code_of(model.predict, ROWS[:0]) is Code.EMPTY_TABLE
    assert len(model.runs_) == 1


def test_columns_are_read_by_name_and_rows_without_names_in_the_order_of_the_domain() -> None:
    domain = Domain(
        attributes=tuple(
            Attribute(name=name, kind="numeric", bounds=(0, 100), bins=8) for name in "ab"
        ),
        target=Target(name="y", classes=(0, 1)),
        capacity=500,
    )
    rows = np.random.default_rng(0).integers(0, 100, (400, 2)).astype(float)
    frame = pd.DataFrame({"b": rows[:, 1], "more": 1.0, "a": rows[:, 0]})
    y = (rows[:, 0] > 50).astype(int)
    model = HiddenTreeClassifier(domain=domain, noise="none", engine="clear").fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b"]
    for table in (frame, frame[["b", "a"]], frame[["a", "b"]]):
        assert model.score(table, y) == 1
    with pytest.warns(UserWarning, match="feature names"):
        assert model.score(rows, y) == 1


def test_slots_beyond_the_capacity_and_owners_that_are_no_lists() -> None:
    domain = Domain(
        attributes=(Attribute(name="a", kind="numeric", bounds=(0, 1), bins=2),),
        target=Target(name="y", classes=(0, 1)),
        capacity=80,
    )
    model = HiddenTreeClassifier(domain=domain, noise="none", engine="clear")
    rows, y = [[0.1], [0.9]] * 30, [0, 1] * 30
    for call, code in (
        (lambda: model.fit_owners([rows, rows], [y, y], slots=[60, 60]), Code.CAPACITY_EXCEEDED),
        (lambda: model.fit_owners(np.array(rows), np.array(y)), Code.WRONG_TYPE),
        (lambda: model.plan(rows), Code.WRONG_TYPE),
    ):
        with pytest.raises(HedgerowError) as caught:
            call()
        assert caught.value.code is code


def test_an_epsilon_beyond_the_coins_is_refused_at_once() -> None:
    domain = Domain(
        attributes=(Attribute(name="a", kind="numeric", bounds=(0, 1), bins=2),),
        target=Target(name="y", classes=(0, 1)),
        capacity=80,
    )
    with pytest.raises(HedgerowError) as caught:
        HiddenTreeClassifier(1e9, domain).fit([[0.1], [0.9]] * 30, [0, 1] * 30)
    assert caught.value.code is Code.BAD_EPSILON
