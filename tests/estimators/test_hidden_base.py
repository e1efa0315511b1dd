"""What every estimator with a hidden model shares."""

import numpy as np
import pytest
from sklearn.utils import get_tags
from test_hidden import DOMAIN, ILL, ROWS, code_of, model_of

from hedgerow.errors import Code, HedgerowWarning
from hedgerow.protocols.kinds import KINDS


@pytest.mark.parametrize(("noise", "noisy"), [("none", False), ("splits+leaves", True)])
def test_tags_say_what_noise_does(noise: str, noisy: bool) -> None:
    tags = get_tags(model_of(noise=noise))
    assert tags.non_deterministic is noisy
    assert tags.classifier_tags.poor_score is noisy


def test_the_kind_is_one_that_all_parties_know() -> None:
    assert model_of()._kind in KINDS


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
