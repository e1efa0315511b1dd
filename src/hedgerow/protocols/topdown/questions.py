"""Which questions a server answers: those of the plan, in order, and each node once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hedgerow.errors import Code
from hedgerow.protocols.topdown.parts import OF_OWNERS
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.server_state import Last
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.protocols.topdown.wire import Ask


def common_question(asked: Mapping[int, Ask]) -> Ask:
    """Return what all servers here are asked alike; of the parts, only whose they are is left.

    Raises
    ------
    HedgerowError
        H820 if they are asked different things.
    """
    nothing = np.zeros(0, dtype=np.uint8)
    found = [replace(ask, arrays=dict.fromkeys(ask.arrays, nothing)) for ask in asked.values()]
    if any(ask.to_bytes() != found[0].to_bytes() for ask in found):
        raise Code.BAD_ASK.error(
            expected="the same question to all servers", found="questions that differ"
        )
    return found[0]


def checked_shape(
    ask: Ask, plan: TopDownPlan, splits: Sequence[tuple[int, int]], last: Last | None
) -> Shape:
    """Return the shape with the splits of a question, if it is allowed now.

    Parameters
    ----------
    ask : Ask
    plan : TopDownPlan
    splits : sequence of (node, candidate)
        Made before.
    last : Last or None
        The question before.

    Raises
    ------
    HedgerowError
        H820 for a question that the plan does not allow now, H821 for one that was paid for.
    """
    _check_order(ask, plan, last)
    if not 1 <= len(ask.arrays) <= plan.n_owners:
        raise Code.BAD_ASK.error(
            expected=f"parts of 1 to {plan.n_owners} owners", found=f"parts of {len(ask.arrays)}"
        )
    shape = shape_of(plan, splits)
    shape.check(ask.expand)
    first = shape.n_nodes if last is not None else 0
    shape.expand(ask.expand)
    if OF_OWNERS[ask.phase] == "nodes":
        if not ask.nodes or ask.nodes != shape.asked(first):
            raise Code.BAD_ASK.error(
                expected="the new nodes, in their order", found=f"{len(ask.nodes)} other nodes"
            )
        return shape
    known = all(node < shape.n_nodes for node in ask.nodes)
    if not ask.nodes or not known or not shape.is_antichain(ask.nodes):
        raise Code.BAD_ASK.error(
            expected="leaves of the tree, none below another", found="other nodes"
        )
    return shape


def shape_of(plan: TopDownPlan, splits: Sequence[tuple[int, int]]) -> Shape:
    """Return the shape after some splits."""
    shape = Shape(plan)
    shape.expand(splits)
    return shape


def _check_order(ask: Ask, plan: TopDownPlan, last: Last | None) -> None:
    due = 1 if last is None else last.ask.round + 2
    if ask.plan != plan.digest:
        raise Code.BAD_ASK.error(
            expected=f"a question of the plan {plan.digest[:16]}",
            found=f"one of the plan {ask.plan[:16]!r}",
        )
    if last is not None and (ask.round < due or OF_OWNERS[last.ask.phase] == "leaves"):
        raise Code.ASKED_TWICE.error(
            expected=f"round {due}, or the question of round {last.ask.round}",
            found=f"another question in round {ask.round}",
        )
    first_is_leaves = last is None and ask.phase != "servers"
    if ask.round != due or ask.phase not in OF_OWNERS or ask.among or first_is_leaves:
        raise Code.BAD_ASK.error(
            expected=f"a question to servers in round {due}",
            found=f"phase {ask.phase!r:.40} in round {ask.round}",
        )
