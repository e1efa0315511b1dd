"""Questions of analysts to a hidden model, and how three servers answer a batch of them.

An analyst deals its queries outside of the network and hands every server its part; the answer
comes back as two halves, which the analyst alone can join. It has no seat among the servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy import Ledger, Opening
from hedgerow.protocols.hidden.model import SecretForest
from hedgerow.protocols.hidden.protocol import HiddenProtocol
from hedgerow.protocols.sharing.queries import deal_queries, expand_queries, planes_shape
from hedgerow.secure.replicated.outside import (
    HALVES,
    Dealt,
    bits_of_parts,
    join_halves,
    open_halves,
)
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import WORD, Engine, SecretBits, concatenate, pack, unpack
from hedgerow.tables import Encoded

Array = NDArray[Any]
BLOCK = 1 << 22
"""Numbers in the widest step of a block of rows: what bounds the memory of a run."""
MOST_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class DealtQuestion:
    """`n` queries of an analyst: the parts of their bits at the servers that live here."""

    n: int
    parts: Mapping[int, Dealt] = field(repr=False)
    audience: str = "analyst"


def question_of(plan: Any, queries: Encoded) -> DealtQuestion:
    """Deal queries to the three servers; H117 for queries of another domain."""
    return DealtQuestion(queries.n_slots, deal_queries(plan.layout, queries))


def openings_of(
    protocol: HiddenProtocol, plan: Any, questions: Sequence[DealtQuestion], what: str
) -> list[Opening]:
    """Return what the answers open, to each analyst its own; several have a number each."""
    found = []
    for k, question in enumerate(questions):
        (opening,) = protocol.answer_openings(plan, question.n, what)
        name = opening.name if len(questions) == 1 else f"{opening.name} ({k})"
        found.append(replace(opening, name=name, audience=question.audience))
    return found


def open_answers(
    protocol: HiddenProtocol,
    model: SecretForest,
    plan: Any,
    questions: Sequence[DealtQuestion],
    what: str,
    ledger: Ledger,
) -> list[dict[int, Array]]:
    """Answer questions that were charged.

    1. Dealt bits of all queries, side by side, become one-hot rows.
    2. The trees are walked, in blocks of rows (`HiddenProtocol.answers`).
    3. The rows of each question become halves, opened to its analyst and to nobody else.

    Returns for each question the halves of the servers that live here; none of the third.

    Reveals: the answers, to their analysts, once both halves are given to them.
    Cost: that of `expand_queries` and of the answers, per block; no round for the halves.
    """
    engine = model.engine
    openings = openings_of(protocol, plan, questions, what)
    shared = _join_bits(engine, plan, questions)
    parts = []
    for block in _blocks(shared, block_rows(model)):
        rows = expand_queries(plan.layout, model.ring, block)
        parts.append(protocol.answers(model, plan, rows, what, ledger))
    result = parts[0] if len(parts) == 1 else concatenate(parts)
    found, at = [], 0
    for opening, question in zip(openings, questions, strict=True):
        rows = result[at : at + question.n]
        at += question.n
        found.append(open_halves(engine, rows, opening.name, opening.audience))
    return found


def join_answers(halves: Mapping[int, Array]) -> NDArray[np.int64]:
    """Join the halves of an answer, as its analyst: whole numbers, which `HiddenProtocol.read`s."""
    elements = join_halves(*(halves[server] for server in HALVES))
    return Ring(8 * elements.dtype.itemsize).signed(elements).astype(np.int64)


def block_rows(model: SecretForest) -> int:
    """Return how many rows are answered at once: whole words, by public numbers."""
    layout, values = model.layout, model.values.shape
    inner = model.splits.shape[0] * model.splits.shape[1]
    size = 1 << max(1, (layout.width - 1).bit_length())
    widest = max(
        values[0] * values[1] * values[2],
        layout.n_features * size,
        inner * (layout.width if layout.branching == "wary" else 1),
    )
    return max(WORD, min(MOST_ROWS, BLOCK // widest // WORD * WORD))


def _join_bits(engine: Engine, plan: Any, questions: Sequence[DealtQuestion]) -> SecretBits:
    """Put the bits of all queries side by side, without the padding of each."""
    parts = [
        bits_of_parts(engine, one.parts, planes_shape(plan.layout, one.n)) for one in questions
    ]
    if len(parts) == 1:
        return parts[0]
    every = np.concatenate([unpack(bits.data, bits.n) for bits in parts], axis=-1)
    return SecretBits(engine, every.shape[-1], pack(every))


def _blocks(bits: SecretBits, step: int) -> list[SecretBits]:
    """Cut bits (..., n) into blocks of whole words."""
    found = []
    for start in range(0, max(1, bits.n), step):
        stop = min(start + step, bits.n)
        data = np.ascontiguousarray(bits.data[..., start // WORD : -(-stop // WORD)])
        found.append(SecretBits(bits.engine, stop - start, data))
    return found
