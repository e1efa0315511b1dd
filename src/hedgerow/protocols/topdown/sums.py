"""From the owners' parts to the numbers of a question, still secret; and what may be opened.

See `hedgerow.protocols.topdown.server` for where this stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.protocols.sharing.sealed_parts import Parts, fitting, secret_of
from hedgerow.protocols.topdown.checks import cost_within_range, range_opening, within_range
from hedgerow.protocols.topdown.meeting import cost_meeting
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.parts import OF_OWNERS, shared_array
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.protocols.topdown.wire import Ask
from hedgerow.secure.cost import Cost
from hedgerow.secure.replicated.outside import cost_fit_together
from hedgerow.secure.secret import Engine, Secret, stack

PUBLIC = "public"
USED = 0
LEFT_OUT = (Code.SHARES_DIFFER, Code.CAPACITY_EXCEEDED)
"""Why an owner's counts are left out: parts that do not fit together, or numbers out of range."""


@dataclass(frozen=True)
class Summed:
    """The numbers of a question, and whose counts are in them.

    Attributes
    ----------
    numbers : Secret
        To be opened.
    used : int64, shape (owners,)
        0, or the number of the error for which an owner was left out.
    """

    numbers: Secret
    used: NDArray[np.int64]


def numbers_name(ask: Ask) -> str:
    """Return the name of the opening of a question's numbers."""
    leaves = OF_OWNERS[ask.phase] == "leaves"
    return "class counts of leaves" if leaves else "choice, worth and weight of nodes"


def openings_of(splits: SecureSplits, ask: Ask, shape: Shape) -> list[Opening]:
    """Declare what a question opens, from public numbers.

    Parameters
    ----------
    splits : SecureSplits
    ask : Ask
        To the servers.
    shape : Shape
        With the splits of the question made.
    """
    plan, m = splits.plan, len(ask.nodes)
    name = numbers_name(ask)
    if OF_OWNERS[ask.phase] == "leaves":
        reasons = ["class counts of each leaf"] if plan.is_private else ["splits and leaves"]
        return [Opening(name, PUBLIC, (m, plan.n_classes), derived=tuple(reasons))]
    reasons = ["splits and leaves"]
    if plan.is_private:
        each = [f"of each node at depth {d}" for d in np.unique(shape.depths(ask.nodes))]
        kinds = ("split", "worth of the split", "number of records")
        reasons = [f"{kind} {at}" for at in each for kind in kinds]
    return [
        range_opening(len(ask.arrays)),
        Opening(name, PUBLIC, (m, 3), derived=tuple(reasons)),
    ]


def released(engine: Engine, splits: SecureSplits, ask: Ask, shape: Shape, parts: Parts) -> Summed:
    """Check and add up the owners' counts, and compute the numbers.

    Reveals: to the servers, who was left out and why.
    Cost: part of `cost_answer`.

    Parameters
    ----------
    engine : Engine
        Replicated, or clear where all parts are here.
    splits : SecureSplits
    ask : Ask
        To the servers; the names of its arrays are the owners.
    shape : Shape
        With the splits of the question made.
    parts : Parts

    Raises
    ------
    HedgerowError
        H824 if nobody's counts are left.
    """
    phase = OF_OWNERS[ask.phase]
    owners = list(ask.arrays)
    used = np.zeros(len(owners), dtype=np.int64)
    fits = fitting(engine, parts, len(owners))
    used[~fits] = Code.SHARES_DIFFER.value
    size, ring = shared_array(splits, phase, len(ask.nodes))
    counts = [
        secret_of(engine, parts, at, size, ring)
        if fits[at]
        else engine.public(np.zeros(size, dtype=np.uint8), ring)
        for at in range(len(owners))
    ]
    every = stack(counts)
    if phase == "nodes":
        assert splits.plan.capacity is not None
        inside = within_range(every, splits.plan.candidates, splits.plan.capacity)
        used[fits & ~inside] = Code.CAPACITY_EXCEEDED.value
    kept = np.flatnonzero(used == USED)
    if not kept.size:
        raise Code.TOO_FEW_OWNERS.error(
            expected="counts of at least one owner",
            found=f"none that can be used, of {', '.join(owners)}",
        )
    total = every[kept].sum(axis=0)
    if phase == "leaves":
        return Summed(splits.leaf_numbers(total), used)
    depths = shape.depths(ask.nodes).tolist()
    return Summed(splits.numbers(total, depths, shape.undecided(ask.nodes)), used)


def answer_arrays(
    ask: Ask, numbers: NDArray[np.int64], used: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Return what a server answers."""
    if OF_OWNERS[ask.phase] == "leaves":
        return {"classes": numbers, "used": used}
    choice, worth, weight = numbers.T
    return {"weight": weight, "choice": choice, "worth": worth, "used": used}


def cost_answer(engine: Engine, splits: SecureSplits, ask: Ask, shape: Shape) -> Cost:
    """State what one question costs the servers, opening and farewell included.

    Parameters
    ----------
    engine : Engine
        Of three servers.
    splits, ask, shape
        As for `released`.
    """
    k, m, phase = len(ask.arrays), len(ask.nodes), OF_OWNERS[ask.phase]
    total = cost_meeting() + cost_fit_together(k) + Cost.equal(3, KEY_BYTES, engine.n_parties)
    if phase == "leaves":
        shown, ring = (m, splits.plan.n_classes), splits.leaf_ring
        total += splits.cost_leaves(engine, m)
    else:
        shown, ring = (m, 3), splits.wide
        whole = (k, *splits.histogram_shape(m))
        total += cost_within_range(engine, whole, splits.plan.candidates, splits.ring)
        total += splits.cost(engine, shape.depths(ask.nodes).tolist())
    return total + engine.cost("open", shape=shown, ring=ring, to=engine.everyone)
