from typing import Any

import numpy as np
import pytest

from hedgerow.errors import HedgerowError, LeakageError
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.answers import (
    CLASS,
    COUNTS,
    HIDDEN_TREE,
    VOTES,
    distribution,
    winner,
)
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.votes.budget import ANSWERS
from hedgerow.secure.ring import Z16
from tests.protocols.hidden.hidden_runs import (
    ENGINES,
    answers_of,
    domain,
    look,
    make_engine,
    make_slots,
    run_hidden,
    shared,
)
from tests.protocols.sharing.shared_tables import shared_queries

N = 50


def planned(**options: Any) -> HiddenPlan:
    return plan_hidden(domain(), **{"capacity": N, "depth": 2, **options})


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("n_trees", [1, 2, 3, 8])
def test_the_winner_has_the_most_votes_and_the_lowest_index(name: str, n_trees: int) -> None:
    rng = np.random.default_rng(n_trees)
    votes = rng.multinomial(n_trees, [0.3, 0.3, 0.2, 0.2], size=60)
    engine = make_engine(name)
    found = look(winner(engine.input(votes, 0, votes.shape, Z16), n_trees))
    np.testing.assert_array_equal(found, votes.argmax(axis=1))


def test_distributions_of_counts() -> None:
    counts = np.array([[3, 1, 0], [-2, 5, -1], [0, 0, 0], [-3, -1, -2], [10**6, 1, 1]])
    found = distribution(counts)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert found[:3].tolist() == [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    assert (found >= 0).all()
    # The class that is answered is never less probable than another.
    best = np.take_along_axis(found, counts.argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(best, found.max(axis=1))


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_counts_and_classes_are_those_of_one_leaf(name: str, branching: Any) -> None:
    plan = planned(noise="leaves", branching=branching, epsilon=0.1)
    slots = make_slots(domain(), 0, N)
    run = run_hidden(name, slots, plan, whats=("class", "distribution"))
    counts = run.answers["distribution"]
    assert counts.shape == (N, 3)
    np.testing.assert_array_equal(run.classes, counts.argmax(axis=1))
    values = look(run.model.values)[0]
    # Noise of either sign, no matter in which ring.
    assert values.min() < 0
    np.testing.assert_array_equal(values[:, 0], values[:, 1:].argmax(axis=1))
    leaves = {tuple(row) for row in values[:, 1:].tolist()}
    assert {tuple(row) for row in counts[slots.present].tolist()} <= leaves


@pytest.mark.parametrize("name", ENGINES)
def test_counts_without_noise_to_speak_of_are_the_counts(name: str) -> None:
    plan = planned(noise="leaves", branching="binary", epsilon=90.0, depth=1)
    slots = make_slots(domain(), 1, N)
    run = run_hidden(name, slots, plan, whats=("class", "distribution"))
    counts = run.answers["distribution"]
    kept = slots.present
    for row in np.unique(counts[kept], axis=0):
        inside = kept & (counts == row).all(axis=1)
        np.testing.assert_array_equal(np.bincount(slots.target[inside], minlength=3), row)


def test_what_an_answer_opens_is_declared() -> None:
    for options, what, expected in (
        ({}, "class", (CLASS, (9,))),
        ({}, "distribution", (COUNTS, (9, 3))),
        ({"n_trees": 5}, "class", (CLASS, (9,))),
        ({"n_trees": 5}, "distribution", (VOTES, (9, 3))),
    ):
        (opening,) = HIDDEN_TREE.answer_openings(planned(**options), 9, what)
        assert (opening.name, opening.shape, opening.audience) == (*expected, "analyst")
        assert opening.derived is not None
        assert len(opening.derived) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"noise": "none"},
        {"leaf_release": "labels"},
        {"mechanism": "laplace"},
        {"noise": "leaves", "mechanism": "exponential"},
        {"noise": "votes", "n_trees": 3, "queries": 4},
    ],
)
def test_distributions_are_refused_where_only_labels_were_released(options: Any) -> None:
    plan = planned(**options)
    with pytest.raises(HedgerowError, match="H501"):
        HIDDEN_TREE.answer_openings(plan, 9, "distribution")
    if plan.noise == "votes":
        assert [opening.release for opening in HIDDEN_TREE.answer_openings(plan, 9)] == [ANSWERS]
        return
    # A declaration of another plan does not help.
    ledger = Ledger(domain=plan.domain)
    leakage = Leakage(HIDDEN_TREE.answer_openings(planned(), N, "distribution"), ledger=ledger)
    engine = make_engine("clear", leakage)
    slots = make_slots(domain(), 2, N)
    model = train_hidden(shared(engine, slots, plan.layout, plan.ring), plan, ledger)
    with pytest.raises(HedgerowError, match="H501"):
        HIDDEN_TREE.answers(
            model,
            plan,
            shared_queries(engine, plan.layout, model.ring, slots),
            "distribution",
            ledger,
        )
    with pytest.raises(HedgerowError, match="H501"):
        answers_of(model, plan, slots, "distribution", ledger)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("options", [{"noise": "none"}, {"noise": "leaves"}, {}, {"n_trees": 2}])
def test_answers_are_refused_unless_everything_they_rest_on_was_charged(
    name: str, options: Any
) -> None:
    plan = planned(**options)
    slots = make_slots(domain(), 3, plan.n_slots)
    paid = Ledger(domain=plan.domain)
    engine = make_engine(name, Leakage([]))
    model = train_hidden(shared(engine, slots, plan.layout, plan.ring), plan, paid)
    openings = HIDDEN_TREE.answer_openings(plan, plan.n_slots)
    # No ledger at all, an empty one, and every ledger that lacks one charge.
    ledgers: list[Ledger | None] = [None, Ledger(domain=plan.domain)]
    for left_out in range(len(paid.releases)):
        some = Ledger(domain=plan.domain)
        some.charge(*(r for i, r in enumerate(paid.releases) if i != left_out))
        ledgers.append(some)
    for ledger in ledgers:
        engine.leakage = Leakage(openings, ledger=ledger)
        with pytest.raises(LeakageError, match="H306"):
            answers_of(model, plan, slots, "class", Ledger())
        # Predictions were computed, and no half of them was made.
        assert not any(row["opened"] for row in engine.leakage.compare())
    engine.leakage = Leakage(openings, ledger=paid)
    assert answers_of(model, plan, slots, "class", Ledger()).shape == (plan.n_slots,)
    with pytest.raises(LeakageError, match="H304"):
        answers_of(model, plan, slots, "class", Ledger())


@pytest.mark.parametrize("name", ENGINES)
def test_answers_go_to_the_analyst_and_in_the_declared_number(name: str) -> None:
    plan = planned(noise="none")
    ledger = Ledger(domain=plan.domain)
    engine = make_engine(name, Leakage(HIDDEN_TREE.answer_openings(plan, N - 1), ledger=ledger))
    slots = make_slots(domain(), 3, N)
    model = train_hidden(shared(engine, slots, plan.layout, plan.ring), plan, ledger)
    with pytest.raises(LeakageError, match="H303"):
        answers_of(model, plan, slots, "class", Ledger())
    engine.leakage = Leakage([], ledger=ledger)
    with pytest.raises(LeakageError, match="H301"):
        answers_of(model, plan, slots, "class", Ledger())
