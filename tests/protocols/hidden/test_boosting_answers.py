import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.hidden.boosting import HIDDEN_BOOSTING
from hedgerow.protocols.hidden.options import plan_boosting
from tests.protocols.hidden.number_runs import classes, fit, numbers


@pytest.mark.parametrize("k", [2, 3])
def test_classes_and_scores_agree(k: int) -> None:
    table = classes(k=k)
    plan = plan_boosting(table.domain, epsilon=20.0, n_rounds=2, depth=1)
    model = fit("hidden-boosting", plan, table, "simulate")
    scores, found = model.ask(table.bins, "score"), model.ask(table.bins, "class")
    assert scores.shape == (len(table.bins), 1 if k == 2 else k)
    assert np.array_equal(found, scores[:, 0] > 0 if k == 2 else scores.argmax(axis=1))


def test_an_answer_that_the_loss_does_not_have_is_refused() -> None:
    for table, what in ((classes(), "value"), (numbers(), "class"), (numbers(), "score")):
        plan = plan_boosting(table.domain)
        with pytest.raises(HedgerowError) as caught:
            HIDDEN_BOOSTING.answer_openings(plan, 5, what)
        assert caught.value.code is Code.BAD_PARAMETER


def test_openings_go_to_the_analyst_and_name_what_they_rest_on() -> None:
    plan = plan_boosting(classes(k=3).domain, depth=2)
    (opening,) = HIDDEN_BOOSTING.answer_openings(plan, 5, "score")
    assert opening.audience == "analyst"
    assert opening.shape == (5, 3)
    assert (
        opening.derived
        == (
            "split of each node at level 0",
            "split of each node at level 1",
            "sum of each leaf",
            "weight of each leaf",
        )
        * plan.n_rounds
    )
