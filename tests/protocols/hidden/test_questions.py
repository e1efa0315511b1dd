"""Questions: in blocks of rows, and with answers that their analyst alone can join."""

import numpy as np
import pytest

from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden import questions
from hedgerow.protocols.hidden.answers import CLASS, HIDDEN_TREE
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.protocol import stored_forest
from hedgerow.protocols.hidden.questions import (
    DealtQuestion,
    block_rows,
    join_answers,
    open_answers,
    openings_of,
    question_of,
)
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.secret import WORD
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    answers_of,
    domain,
    every_row,
    make_engine,
    make_slots,
    shared,
)

N = 60


def asked_of(plan, n: int, audience: str, seed: int) -> tuple[DealtQuestion, np.ndarray]:
    """Return a question about n rows, and the rows."""
    every = every_row(plan.domain)
    rows = every.rows(np.random.default_rng(seed).integers(0, every.n_slots, n))
    made = question_of(plan, rows)
    return DealtQuestion(n, made.parts, audience), rows


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_several_analysts_get_their_own_answers(name: str, block: int, monkeypatch) -> None:
    monkeypatch.setattr(questions, "BLOCK", block)
    plan = plan_hidden(domain(capacity=N), noise="none", depth=2)
    ledger = Ledger(domain=plan.domain)
    engine = make_engine(name, Leakage([], ledger=ledger))
    model = train_hidden(
        shared(engine, make_slots(domain(capacity=N), 0, N), plan.layout, plan.ring), plan, ledger
    )
    names = [f"analyst ann{i}" for i in range(3)]
    asked = [asked_of(plan, n, who, n) for n, who in zip((1, 70, 64), names, strict=True)]
    batch = [question for question, _ in asked]
    openings = openings_of(HIDDEN_TREE, plan, batch, "class")
    assert [(one.name, one.audience) for one in openings] == [
        (f"{CLASS} ({k})", who) for k, who in enumerate(names)
    ]
    engine.leakage = Leakage(openings, ledger=ledger)
    found = open_answers(HIDDEN_TREE, model, plan, batch, "class", ledger)
    assert all(row["equal"] for row in engine.leakage.compare())
    for who in names:
        assert len(engine.leakage.what_was_learned(who)) == 1
    for (question, rows), halves in zip(asked, found, strict=True):
        assert sorted(halves) == [0, 1]
        engine.leakage = Leakage(HIDDEN_TREE.answer_openings(plan, question.n), ledger=ledger)
        alone = answers_of(model, plan, rows, "class", ledger)
        np.testing.assert_array_equal(join_answers(halves), alone)


def test_one_question_is_declared_as_the_kind_declares_it() -> None:
    plan = plan_hidden(domain(capacity=N), noise="none", depth=2)
    (opening,) = openings_of(HIDDEN_TREE, plan, [DealtQuestion(7, {})], "class")
    assert opening == HIDDEN_TREE.answer_openings(plan, 7)[0]


@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("depth", [1, 4])
def test_blocks_are_whole_words_and_bounded(branching: str, depth: int) -> None:
    plan = plan_hidden(
        domain(capacity=N), noise="none", depth=depth, branching=branching, n_trees=3
    )
    engine = ReplicatedEngine(Simulator(3), Leakage([]), insecure_seed=b"blocks")
    layout = plan.layout
    inner = sum(layout.n_nodes(level) for level in range(depth))
    splits = np.zeros((3, 2, 3, inner, len(layout.candidates)), np.uint16)
    values = np.zeros((3, 2, 3, layout.n_nodes(depth), 3), np.uint16)
    model = stored_forest(engine, plan, {"splits": splits, "values": values})
    rows = block_rows(model)
    assert rows % WORD == 0
    assert WORD <= rows <= questions.MOST_ROWS
