from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.topdown.questions import checked_shape, common_question
from hedgerow.protocols.topdown.server_state import Last
from hedgerow.protocols.topdown.wire import Ask
from tests.protocols.topdown.secure_counts import plan_of

PLAN = plan_of()
NOTHING = np.zeros(0, dtype=np.uint8)
OWNERS = {"amsterdam": NOTHING, "berlin": NOTHING}
ROOT = Ask(PLAN.digest, 1, "servers", (), (0,), (), OWNERS)
NEXT = Ask(PLAN.digest, 3, "servers", ((0, 2),), (1, 2), (), OWNERS)
LEAVES = Ask(PLAN.digest, 5, "servers, leaves", (), (1, 2), (), OWNERS)


def after(ask: Ask) -> Last:
    return Last(ask, np.zeros(1, dtype=np.uint64), np.zeros(2, dtype=np.int64), b"")


def test_questions_in_order_pass() -> None:
    assert checked_shape(ROOT, PLAN, [], None).n_nodes == 1
    assert checked_shape(NEXT, PLAN, [], after(ROOT)).n_nodes == 3
    assert checked_shape(LEAVES, PLAN, [(0, 2)], after(NEXT)).splits == [(0, 2)]


REFUSED = {
    "another plan": (replace(NEXT, plan="e" * 64), Code.BAD_ASK),
    "a round too late": (replace(NEXT, round=5), Code.BAD_ASK),
    "a round of owners": (replace(NEXT, round=4), Code.BAD_ASK),
    "a round that is over": (replace(NEXT, round=1), Code.ASKED_TWICE),
    "a phase of owners": (replace(NEXT, phase="nodes"), Code.BAD_ASK),
    "candidates": (replace(NEXT, among=((1,), (2,))), Code.BAD_ASK),
    "nobody": (replace(NEXT, arrays={}), Code.BAD_ASK),
    "too many": (replace(NEXT, arrays={**OWNERS, "cordoba": NOTHING}), Code.BAD_ASK),
    "a node that is not there": (replace(NEXT, expand=((4, 2),)), Code.BAD_ASK),
    "a split that is none": (replace(NEXT, expand=((0, 99),)), Code.BAD_ASK),
    "two splits of a node": (replace(NEXT, expand=((0, 2), (0, 3))), Code.ASKED_TWICE),
    "one of two new nodes": (replace(NEXT, nodes=(1,)), Code.BAD_ASK),
    "an old node": (replace(NEXT, expand=(), nodes=(0,)), Code.BAD_ASK),
    "no node": (replace(NEXT, expand=(), nodes=()), Code.BAD_ASK),
    "a leaf below another": (replace(NEXT, phase=LEAVES.phase, nodes=(0, 1)), Code.BAD_ASK),
    "a leaf twice": (replace(NEXT, phase=LEAVES.phase, nodes=(1, 1)), Code.BAD_ASK),
    "a leaf that is not there": (replace(NEXT, phase=LEAVES.phase, nodes=(7,)), Code.BAD_ASK),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_other_questions_are_refused(what: str) -> None:
    ask, code = REFUSED[what]
    with pytest.raises(HedgerowError) as error:
        checked_shape(ask, PLAN, [], after(ROOT))
    assert error.value.code is code


def test_nothing_comes_before_the_root_or_after_the_leaves() -> None:
    for ask, last, code in (
        (replace(LEAVES, round=1, nodes=(0,)), None, Code.BAD_ASK),
        (replace(NEXT, round=1), None, Code.BAD_ASK),
        (replace(LEAVES, round=7), after(LEAVES), Code.ASKED_TWICE),
    ):
        with pytest.raises(HedgerowError) as error:
            checked_shape(ask, PLAN, [] if last is None else [(0, 2)], last)
        assert error.value.code is code


def test_of_the_parts_only_their_owners_are_compared() -> None:
    parts = {name: np.ones(9, dtype=np.uint8) for name in OWNERS}
    found = common_question({0: replace(NEXT, arrays=parts), 1: NEXT})
    assert found.to_bytes() == NEXT.to_bytes()
    with pytest.raises(HedgerowError) as error:
        common_question({0: NEXT, 1: replace(NEXT, arrays={"berlin": NOTHING})})
    assert error.value.code is Code.BAD_ASK
