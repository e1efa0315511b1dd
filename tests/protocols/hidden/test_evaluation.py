"""Held-out rows are counted on shares as they would be from the opened answers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.evaluation import Evaluation, check_derived, plan_evaluation
from hedgerow.protocols.hidden.options import plan_boosting, plan_hidden, plan_regression
from hedgerow.protocols.hidden.protocol import between
from hedgerow.protocols.registry import hidden_protocol
from hedgerow.protocols.run import Run, Trained, ask, evaluate, train
from hedgerow.protocols.sharing.integrate import dealt, keyed
from hedgerow.secure.ring import Z32
from hedgerow.tables import Encoded, Target
from tests.protocols.hidden.hidden_runs import domain, look, make_engine, make_slots

N = 60
TREES: dict[str, dict[str, Any]] = {
    "exact": {"noise": "none", "depth": 2},
    "labels": {"epsilon": 4.0, "depth": 2, "leaf_release": "labels"},
    "counts": {"epsilon": 4.0, "depth": 2},
    "little data": {"epsilon": 0.2, "depth": 3},
    "wary": {"epsilon": 4.0, "depth": 1, "branching": "wary"},
    "a few trees": {"noise": "none", "depth": 2, "n_trees": 4},
    "many trees": {"noise": "none", "depth": 1, "n_trees": 19},
}


def train_on(protocol: str, plan: Any, engine: str) -> Trained:
    table = make_slots(plan.domain, 5, plan.n_slots)
    owners = dealt(plan.layout, table, plan.n_slots, 1, "horizontal", keyed(b"k" * 16))
    trained, _ = train(protocol, plan, owners, engine, seed=3)  # type: ignore[arg-type]
    return trained


def held_out(plan: Any, seed: int = 9) -> Encoded:
    return make_slots(plan.domain, seed, N)


def expected(trained: Trained, plan: Any, rows: Encoded, ranges: int) -> NDArray[np.int64]:
    """Count by what the analyst would be told of every row, one by one."""
    protocol, (n, boundary, _) = (
        hidden_protocol(trained.protocol),
        evaluation_places(trained, plan, ranges),
    )
    classes, _ = ask(trained, plan, rows.bins, protocol.asks(plan, proba=False))
    index, _ = protocol.classified(plan, classes, protocol.asks(plan, proba=False))
    table = np.zeros((plan.n_classes, n), dtype=np.int64)
    shares = None
    if boundary is not None and n > 2:
        what = protocol.asks(plan, proba=True)
        answers, _ = ask(trained, plan, rows.bins, what)
        _, shares = protocol.classified(plan, answers, what)
    steps = sorted({int(j * plan.n_trees // ranges) + 1 for j in range(1, ranges)})
    for row in np.flatnonzero(rows.present):
        place = int(index[row])
        if shares is not None:
            share = float(shares[row, 1])
            if trained.protocol == "hidden-tree" and plan.n_trees > 1:
                votes = round(share * plan.n_trees)
                place = sum(votes >= least for least in steps if least <= plan.n_trees)
            else:
                beyond = np.arange(1, ranges) / ranges
                # On a line between two ranges the answer decides.
                tied = np.isclose(share, beyond)
                place = int(((share > beyond) & ~tied).sum() + index[row] * tied.sum())
        table[rows.target[row], place] += 1
    return table


def evaluation_places(trained: Trained, plan: Any, ranges: int) -> tuple[int, int | None, int]:
    return plan_evaluation(hidden_protocol(trained.protocol), plan, N, None, ranges).places


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", TREES)
def test_trees(name: str, k: int, engine: str) -> None:
    plan = plan_hidden(domain(k), **{"capacity": 40, **TREES[name]})
    trained, rows = train_on("hidden-tree", plan, engine), held_out(plan)
    for ranges in (2, 16):
        found, run = evaluate(trained, plan, rows, None, ranges)
        np.testing.assert_array_equal(found.table, expected(trained, plan, rows, ranges))
        assert found.table.sum() == rows.present.sum()
        check_record(run, found)


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("k", [2, 3])
def test_boosting(k: int, engine: str) -> None:
    plan = plan_boosting(domain(k), noise="none", depth=1, n_rounds=3, capacity=40)
    trained, rows = train_on("hidden-boosting", plan, engine), held_out(plan)
    found, run = evaluate(trained, plan, rows, None, 8)
    np.testing.assert_array_equal(found.table, expected(trained, plan, rows, 8))
    check_record(run, found)


def check_record(run: Run, found: Evaluation) -> None:
    """One opening, to the analyst alone."""
    (row,) = run.leakage.what_was_learned("analyst")
    assert (row["times"], row["values"]) == (1, found.table.size)
    assert run.leakage.what_was_learned("server 0") == []
    assert [entry.release.reason for entry in found.privacy.entries] == [row["name"]]


def test_noise_is_that_of_the_plan_and_pays_for_all_cells_at_once() -> None:
    plan = plan_hidden(domain(2), noise="none", depth=2, capacity=40)
    trained, rows = train_on("hidden-tree", plan, "clear"), held_out(plan)
    exact, _ = evaluate(trained, plan, rows, None)
    errors = []
    for seed in range(200):
        found, _ = evaluate(trained, plan, rows, 0.5, seed=seed)
        errors.append(found.table - exact.table)
    assert found.privacy.total("analyst").epsilon == np.inf
    found, _ = evaluate(trained, plan, rows, 0.5)
    assert found.privacy.total("analyst").epsilon == 0.5
    assert found.privacy.total("public").epsilon == 0
    size, zero = np.abs(np.stack(errors)), np.exp(-0.5)
    # P[|noise| = 0] = (1 - p) / (1 + p), and each step beyond is p times as likely: 4 sigma.
    share = (1 - zero) / (1 + zero)
    assert abs(np.mean(size == 0) - share) < 4 * np.sqrt(share / size.size)
    tail = 2 * share * zero**3 / (1 - zero)
    assert abs(np.mean(size >= 3) - tail) < 4 * np.sqrt(tail / size.size)


def test_processes_exchange_as_much_and_open_the_same() -> None:
    plan = plan_hidden(domain(2), noise="none", depth=1, capacity=40)
    trained, rows = train_on("hidden-tree", plan, "simulate"), held_out(plan)
    apart = Trained("hidden-tree", "processes", trained.servers)
    here, run = evaluate(trained, plan, rows, 2.0, seed=1)
    there, other = evaluate(apart, plan, rows, 2.0, seed=1)
    np.testing.assert_array_equal(here.table, there.table)
    assert here.privacy.to_json() == there.privacy.to_json()
    assert (run.meter.payload, run.meter.wire) == (other.meter.payload, other.meter.wire)


def test_figures_of_a_table() -> None:
    table = np.array([[5, 3, 0, -2], [1, 0, 2, 7]])
    found = Evaluation(table, 2, ("n", "p"), Ledger())
    assert found.confusion.tolist() == [[8, 0], [1, 9]]
    assert found.accuracy == 17 / 18
    # Pairs: 1 positive among 5 negatives counts half of them; 2 and 7 are above all 8.
    assert found.auc == (1 * 2.5 + 9 * 8) / (8 * 10)
    assert Evaluation(np.zeros((3, 3)), None, (0, 1, 2), Ledger()).auc is None
    assert np.isnan(Evaluation(np.zeros((2, 4)), 2, (0, 1), Ledger()).auc)
    assert np.isnan(Evaluation(np.zeros((2, 4)), 2, (0, 1), Ledger()).accuracy)
    assert set(found.to_dict()) == {"accuracy", "auc", "classes", "confusion", "table"}


def test_steps_become_places() -> None:
    steps = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    engine = make_engine("three servers")
    found = look(between(engine.input(steps, 0, steps.shape, Z32)))
    np.testing.assert_array_equal(found, np.eye(4))


def test_what_is_refused() -> None:
    plan = plan_hidden(domain(2), noise="none", depth=1, capacity=40)
    protocol = hidden_protocol("hidden-tree")
    for ranges in (1, 3, 258):
        with pytest.raises(HedgerowError, match="H501"):
            plan_evaluation(protocol, plan, N, 1.0, ranges)
    votes = plan_hidden(
        domain(2), noise="votes", epsilon=1.0, n_trees=4, depth=1, capacity=40, queries=5
    )
    with pytest.raises(HedgerowError, match="H501"):
        plan_evaluation(protocol, votes, N, 1.0)
    numbers = domain(2).model_copy(update={"target": Target(name="y", bounds=(0.0, 1.0))})
    for other, name in (
        (plan_regression(numbers, noise="none", depth=1, capacity=40), "hidden-regression"),
        (plan_boosting(numbers, noise="none", depth=1, n_rounds=1, capacity=40), "hidden-boosting"),
    ):
        with pytest.raises(HedgerowError, match="H501"):
            plan_evaluation(hidden_protocol(name), other, N, 1.0)


def test_a_model_that_was_not_charged_to_the_analyst() -> None:
    plan = plan_hidden(domain(2), epsilon=1.0, depth=1, capacity=40)
    evaluation = plan_evaluation(hidden_protocol("hidden-tree"), plan, N, 1.0)
    with pytest.raises(HedgerowError) as caught:
        check_derived(plan, evaluation, Ledger(domain=plan.domain))
    assert caught.value.code is Code.NOT_CHARGED
    check_derived(plan, evaluation, plan.ledger())
