"""Logistic regression among peers is the gradient descent of the clear, within stated errors."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.protocols.checkpoint import NoCheckpoints
from hedgerow.protocols.hidden.id3 import no_progress
from hedgerow.protocols.pivot.columns import transfers
from hedgerow.protocols.pivot.logistic.features import Features
from hedgerow.protocols.pivot.logistic.options import LogisticOptions
from hedgerow.protocols.pivot.logistic.plan import WEIGHTS, LogisticPlan
from hedgerow.protocols.pivot.logistic.protocol import PEER_LOGISTIC
from hedgerow.protocols.pivot.logistic.schedule import Schedule
from hedgerow.protocols.pivot.logistic.training import LinearModel, cost_epoch, train
from hedgerow.protocols.pivot.protocol import ANSWERS
from hedgerow.protocols.pivot.run import ask_peers
from hedgerow.secure.additive import AdditiveEngine
from hedgerow.secure.ring import Z64
from hedgerow.tables import Attribute, Domain, Encoded, Target
from tests.protocols.pivot.peer_tables import charged, encoded, grown
from tests.protocols.pivot.test_growth import OnDisk
from tests.protocols.pivot.test_views import FromLast, say_nothing

MIXED = Domain(
    attributes=(
        Attribute(name="a", kind="numeric", bounds=(-1, 3), bins=8),
        Attribute(name="b", kind="categorical", categories=("u", "v", "w"), missing="own bin"),
        Attribute(name="c", kind="numeric", bounds=(0, 1), bins=40, missing="own bin"),
        Attribute(name="d", kind="numeric", bounds=(0, 9), edges=(1.0, 2.0), missing="own bin"),
        Attribute(name="e", kind="categorical", categories=("only",)),
        Attribute(name="f", kind="numeric", bounds=(-1e308, 1e308), edges=()),
    ),
    target=Target(name="y", classes=("n", "p")),
)


def mixed_rows(n: int = 300) -> Encoded:
    """Return rows whose class follows from all attributes that say something."""
    rng = np.random.default_rng(3)
    bins = np.stack([rng.integers(0, k, n) for k in MIXED.n_bins], axis=1)
    score = Features.of(MIXED).rows(bins) @ rng.normal(size=len(Features.of(MIXED)))
    target = (score + rng.logistic(size=n) > 0).astype(np.uint8)
    table = np.asfortranarray(bins, dtype=MIXED.dtype)
    return Encoded(MIXED, table, target, np.ones(n, dtype=np.bool_))


def logistic_plan(rows: Encoded, m: int, **options: Any) -> LogisticPlan:
    d = len(rows.domain.names)
    owners = [j * m // d for j in range(d)]
    found = LogisticOptions(**options).plan(
        rows.domain, rows.n_slots, owners=owners, n_peers=m, target_at=m - 1
    )
    assert isinstance(found, LogisticPlan)
    return found


def in_the_clear(rows: Encoded, plan: LogisticPlan) -> np.ndarray:
    """Return the weights of the same descent in floating point, (scores, weights)."""
    schedule = plan.schedule(rows.n_slots)
    order = schedule.order()
    X = plan.features.rows(rows.bins[order])
    if plan.intercept:
        X = np.column_stack([X, np.ones(len(X))])
    assert rows.target is not None
    y = rows.target[order]
    goal = y[None] if plan.n_scores == 1 else y == np.arange(plan.n_scores)[:, None]
    penalty = np.full(X.shape[1], schedule.penalty)
    penalty[len(plan.features) :] = 0
    weights = velocity = np.zeros((plan.n_scores, X.shape[1]))
    for epoch in range(plan.epochs):
        for rate, batch in zip(schedule.rates(epoch), schedule.batches(epoch), strict=True):
            chance = 1 / (1 + np.exp(-np.clip(weights @ X[batch].T, -700, 700)))
            gradient = (chance - goal[:, batch]) @ X[batch] / len(y[batch])
            velocity = plan.momentum * velocity + gradient
            weights = weights - rate * (gradient + plan.momentum * velocity)
            weights /= 1 + rate * penalty / (1 - plan.momentum)
    return weights


def weights_of(plan: LogisticPlan, model: Any) -> np.ndarray:
    """Return the weights of a model whose shares are all here."""
    assert isinstance(model, LinearModel)
    if not plan.hides:
        return model.values
    assert model.weights is not None
    opened = model.weights.data.sum(axis=0, dtype=np.uint64)
    found: np.ndarray = Z64.signed(opened) / 2.0**model.fraction
    return found


# Features and schedule


def test_what_bins_stand_for() -> None:
    features = Features.of(MIXED)
    assert features.names == (
        *("a", "b=u", "b=v", "b=w", "b=missing", "c", "c=missing", "d", "d=missing", "e=only"),
        "f",
    )
    bins = mixed_rows().bins
    found = features.rows(bins)
    middle = np.linspace(-1, 3, 17)[1::2]
    standard = (middle - middle.mean()) / middle.std()
    assert np.abs(found[:, 0] - standard[bins[:, 0]]).max() <= 1 / 64
    np.testing.assert_array_equal(found[:, 1:5], bins[:, [1]] == np.arange(4))
    fine = np.linspace(0, 1, 81)[1::2]
    standard = np.append((fine - fine.mean()) / fine.std(), 0)
    assert np.abs(found[:, 5] - standard[bins[:, 2]]).max() <= 1 / 64
    np.testing.assert_array_equal(found[:, 6], bins[:, 2] == 40)
    wide = np.array([0.5, 1.5, 5.5])
    standard = np.append((wide - wide.mean()) / wide.std(), 0)
    assert np.abs(found[:, 7] - standard[bins[:, 3]]).max() <= 1 / 64
    np.testing.assert_array_equal(found[:, 9], 1)
    np.testing.assert_array_equal(found[:, 10], 0)
    # 41 bins are two digits and a mark for those that are missing.
    assert [part.weights.shape[1] for part in features.known] == [8, 4, 16, 16, 2, 4, 1, 1]


def test_outliers_are_cut_and_machines_agree() -> None:
    edges = tuple(float(2**i) for i in range(60))
    steep = Attribute(name="x", kind="numeric", bounds=(0, 2.0**61), edges=edges)
    features = Features.of(Domain(attributes=(steep,)))
    found = features.rows(np.arange(61)[:, None])[:, 0]
    assert found.max() == 127 / 32
    assert (np.diff(found) >= 0).all()
    np.testing.assert_array_equal(found * 32, np.rint(found * 32))


def test_no_score_is_larger_than_stated() -> None:
    features = Features.of(MIXED)
    rows = features.rows(mixed_rows(5000).bins)
    assert (np.abs(rows).max(axis=0) <= features.reach).all()
    assert (np.abs(rows) @ features.reach).max() <= features.largest
    assert features.largest <= (np.abs(rows) @ features.reach).max() * 1.2


@pytest.mark.parametrize("momentum", [0.0, 0.95])
@pytest.mark.parametrize("penalty", [0.0, 1e-3])
def test_steps_are_those_of_the_recursion(momentum: float, penalty: float) -> None:
    schedule = Schedule(1000, 3, 90, 0.3, momentum, penalty)
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=schedule.n_batches)
    first = weight, velocity = 0.7, -0.2
    *steps, last = schedule.steps(1, penalty)
    for i, (rate, (start, moved)) in enumerate(zip(schedule.rates(1), steps, strict=True)):
        expected = start @ first + moved @ gradients
        np.testing.assert_allclose([weight, velocity], expected, rtol=0, atol=1e-12)
        assert not moved[:, i:].any()
        velocity = momentum * velocity + gradients[i]
        weight -= rate * (gradients[i] + momentum * velocity)
        weight /= 1 + rate * penalty / (1 - momentum)
    assert last[1].shape == (2, schedule.n_batches)


@pytest.mark.parametrize(("n", "rows", "batches"), [(10, None, 1), (5000, None, 65), (90, 9, 10)])
def test_every_row_is_in_one_batch(n: int, rows: int | None, batches: int) -> None:
    schedule = Schedule(n, 2, rows, 0.1, 0.9, 0.0, public_seed=5)
    assert schedule.n_batches == batches
    for epoch in range(2):
        held = np.concatenate([np.arange(n)[one] for one in schedule.batches(epoch)])
        np.testing.assert_array_equal(np.sort(held), np.arange(n))
    np.testing.assert_array_equal(np.sort(schedule.order()), np.arange(n))
    if batches > 1:
        assert schedule.batches(0) != schedule.batches(1)
        assert (schedule.order() != replace(schedule, public_seed=6).order()).any()


@pytest.mark.parametrize("penalty", [0.0, 0.01, 3.0])
def test_bounds_hold_whatever_the_gradients(penalty: float) -> None:
    schedule = Schedule(1000, 4, 50, 0.5, 0.9, penalty)
    most = schedule.bounds(penalty)
    rng = np.random.default_rng(1)
    largest = np.zeros(2)
    for gradients in (np.ones((4, 20)), np.sign(rng.normal(size=(4, 20)))):
        state = np.zeros(2)
        for epoch in range(4):
            for start, moved in schedule.steps(epoch, penalty):
                reached = start @ state + moved @ gradients[epoch]
                largest = np.maximum(largest, np.abs(reached))
            state = reached
    assert (largest <= np.array(most) * (1 + 1e-12)).all()
    if not penalty:
        # Hardly more than where a gradient that never turns leads to.
        assert (largest >= 0.8 * np.array(most)).all()


# Training


CASES: list[Any] = [
    ("cancer", 2, {"max_iter": 2, "batch_size": 60}),
    pytest.param(
        "cancer",
        3,
        {"max_iter": 2, "batch_size": 150, "hide": "weights", "C": 0.01},
        marks=pytest.mark.slow,
    ),
    ("iris", 2, {"max_iter": 3, "batch_size": 40, "fit_intercept": False}),
    ("iris", 3, {"max_iter": 2, "batch_size": 50, "hide": "weights", "momentum": 0.0}),
    ("mixed", 3, {"max_iter": 3, "batch_size": 60, "learning_rate": 0.4, "public_seed": 9}),
]


def table(name: str) -> Encoded:
    return mixed_rows() if name == "mixed" else encoded(name, bins=64)


@pytest.mark.parametrize(("name", "m", "options"), CASES)
def test_weights_and_answers_are_those_of_the_clear(
    name: str, m: int, options: dict[str, Any]
) -> None:
    rows = table(name)
    plan = logistic_plan(rows, m, **options)
    part = grown(rows, plan)
    clear, found = in_the_clear(rows, plan), weights_of(plan, part.model)
    # A probability is off by 0.0018 at most, and so is a gradient, times its feature's reach.
    schedule = plan.schedule(rows.n_slots)
    assert np.abs(found - clear).max() <= 0.0018 * schedule.bounds(0.0)[0] * 4
    assert np.abs(found - clear).max() <= 0.02
    opened = [one["name"] for one in part.leakage.what_was_learned("peer 0")]
    assert opened == ([] if plan.hides else [WEIGHTS])
    bins = {j: rows.bins[:80, j] for j in range(len(plan.owners))}
    X = plan.features.rows(rows.bins[:80])
    score = X @ found[:, : X.shape[1]].T + (found[:, -1] if plan.intercept else 0)
    answers = {
        what: ask_peers(plan, part.model, bins, 80, charged(plan), asker=1, what=what)
        for what in ("class", "probabilities", "scores")
    }
    np.testing.assert_allclose(answers["scores"], score, rtol=0, atol=2e-4)
    chance = 1 / (1 + np.exp(-score))
    expected = np.column_stack([1 - chance, chance])
    if plan.n_scores > 1:
        expected = chance / chance.sum(axis=1, keepdims=True)
    assert np.abs(answers["probabilities"] - expected).max() <= 0.002 / chance.max(axis=1).min()
    classes = score.argmax(axis=1) if plan.n_scores > 1 else score[:, 0] > 0
    np.testing.assert_array_equal(answers["class"], classes)


def test_steps_as_large_as_fit_wrap_nowhere() -> None:
    """With the largest rate that is not refused, where weights go up and down by thousands."""
    rows, n = table("cancer"), 569
    options: dict[str, Any] = {"max_iter": 2, "batch_size": 150, "momentum": 0.5, "C": 1e6}
    fits = [rate for rate in (2.0**i for i in range(20)) if _fits(rows, rate, options)]
    plan = logistic_plan(rows, 2, learning_rate=fits[-1], **options)
    assert len(fits) < 20
    assert plan.fractions(n).score == 37
    clear, found = in_the_clear(rows, plan), weights_of(plan, grown(rows, plan).model)
    assert np.abs(clear).max() > 1000
    np.testing.assert_allclose(found, clear, rtol=0, atol=0.02 * np.abs(clear).max())


def _fits(rows: Encoded, rate: float, options: dict[str, Any]) -> bool:
    try:
        logistic_plan(rows, 2, learning_rate=rate, **options)
    except HedgerowError:
        return False
    return True


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"learning_rate": 1e9}, Code.BAD_PARAMETER),
        ({"learning_rate": 1e-6}, Code.BAD_PARAMETER),
        ({"max_iter": 1 << 40, "C": 1e12}, Code.BAD_PARAMETER),
        ({"momentum": 1.0}, Code.BAD_JOB),
        ({"C": 0.0}, Code.BAD_JOB),
        ({"hide": "peers"}, Code.BAD_JOB),
        ({"batch_size": 0}, Code.BAD_JOB),
    ],
)
def test_what_cannot_be_trained_is_refused_beforehand(options: dict[str, Any], code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        logistic_plan(table("cancer"), 2, **options)
    assert caught.value.code is code


def test_targets_and_rows_that_make_no_classes_are_refused() -> None:
    plan = logistic_plan(mixed_rows(), 2)
    numbers = MIXED.model_copy(update={"target": Target(name="y", bounds=(0.0, 1.0))})
    for change, code in (
        ({"domain": numbers}, Code.BAD_TARGET),
        ({"align": "hidden"}, Code.BAD_PARAMETER),
    ):
        with pytest.raises(HedgerowError) as caught:
            replace(plan, **change)  # type: ignore[arg-type]
        assert caught.value.code is code


def test_plans_are_plain_data() -> None:
    plan = logistic_plan(mixed_rows(), 3, hide="weights", batch_size=7)
    assert LogisticPlan.from_dict(plan.to_dict()) == plan


def on_engine(
    rows: Encoded, plan: LogisticPlan, network: Simulator, times: int = 1
) -> tuple[AdditiveEngine, Any, Any]:
    """Return an engine that may open everything so often, labels and seeds."""
    declared = [
        Opening(one.name, one.audience, one.shape, independent="a test", times=times)
        for one in plan.openings()
    ]
    asked = Opening(ANSWERS, "peer 0", (rows.n_slots,), independent="a test", times=times)
    engine = AdditiveEngine(network, Leakage([*declared, asked]))
    transfers(engine).begin()
    n = rows.n_slots
    assert rows.target is not None
    target = rows.target[plan.schedule(n).order()].astype(np.int64)
    labels = engine.input(target[None], plan.target_at, (1, n), Z64)
    bins = {j: rows.bins[:, j] for j in range(len(plan.owners))}
    return engine, labels, plan.plant(transfers(engine), bins, n)


@pytest.mark.parametrize("m", [2, 3])
def test_an_epoch_costs_what_it_says(m: int) -> None:
    rows = mixed_rows(120)
    plan = logistic_plan(rows, m, max_iter=1, batch_size=50, hide="weights")
    network = Simulator(m)
    engine, labels, seeds = on_engine(rows, plan, network)
    cost, before = cost_epoch(engine, plan, seeds), network.meter.snapshot()
    train(plan, labels, seeds, no_progress, NoCheckpoints())
    used, ahead = network.meter.since(before), engine.cost_prepare(cost)
    assert used.rounds == cost.rounds + ahead.preprocessing_rounds
    assert used.payload == tuple(
        a + b for a, b in zip(cost.bytes, ahead.preprocessing, strict=True)
    )


def test_a_run_that_goes_on_takes_up_the_last_epoch() -> None:
    rows = mixed_rows(100)
    plan = logistic_plan(rows, 2, max_iter=3, batch_size=50)
    kept: dict[str, Any] = {}
    with pytest.raises(KeyboardInterrupt):
        grown(rows, plan, stages=OnDisk(kept, 2))
    assert list(kept) == ["epoch 1", "epoch 2"]
    before = {name: arrays["state"].copy() for name, arrays in kept.items()}
    part = grown(rows, plan, stages=OnDisk(kept, 1000))
    assert [*kept] == ["epoch 1", "epoch 2", "epoch 3", WEIGHTS]
    for name, state in before.items():
        np.testing.assert_array_equal(kept[name]["state"], state)
    clear = in_the_clear(rows, plan)
    np.testing.assert_allclose(weights_of(plan, part.model), clear, rtol=0, atol=0.02)
    # What was going to be opened is opened again, to the last bit.
    again = grown(rows, plan, stages=OnDisk(kept, 1000))
    np.testing.assert_array_equal(weights_of(plan, again.model), weights_of(plan, part.model))


def test_models_are_read_as_they_were_written() -> None:
    rows = mixed_rows(60)
    plan = logistic_plan(rows, 2, max_iter=1, hide="weights")
    model = grown(rows, plan).model
    engine = AdditiveEngine(Simulator(2), Leakage([]), insecure_seed=b"held")
    again = PEER_LOGISTIC.read(engine, plan, model.to_state())
    np.testing.assert_array_equal(weights_of(plan, again), weights_of(plan, model))


# What others see


@pytest.mark.parametrize("hide", ["nothing", "weights"])
def test_messages_say_nothing(hide: str) -> None:
    """Rows of the last peer differ between two tables; what it sends is noise to the others."""
    rows, runs = mixed_rows(24), 3
    plan = logistic_plan(rows, 3, max_iter=1, batch_size=12, hide=hide)
    every: list[list[list[Any]]] = []
    for constant in (False, True):
        network, bins = FromLast(), rows.bins.copy()
        if constant:
            for j, owner in enumerate(plan.owners):
                bins[:, j] = 0 if owner == 2 else bins[:, j]
        engine, labels, seeds = on_engine(replace(rows, bins=bins), plan, network, runs)
        every.append([])
        for _ in range(runs):
            network.sent.clear()
            model = train(plan, labels, seeds, no_progress, NoCheckpoints())
            own = {j: bins[:, j] for j in range(len(plan.owners))}
            found = PEER_LOGISTIC.answers(engine, plan, model, own, 24, "class")
            engine.open(found, ANSWERS, "peer 0")
            every[-1].append(list(network.sent))
    say_nothing(every)


# As scikit-learn


@pytest.mark.parametrize("C", [1.0, 0.01])
def test_it_is_as_good_as_scikit_learn(C: float) -> None:
    """By default; peers train what the clear does, as is shown above."""
    rows = encoded("cancer", bins=64)
    plan = logistic_plan(rows, 2, C=C)
    weights = in_the_clear(rows, plan)[0]
    X = plan.features.rows(rows.bins)
    reference = LogisticRegression(max_iter=1000, C=C).fit(X, rows.target)
    assert rows.target is not None
    ours = np.mean((X @ weights[:-1] + weights[-1] > 0) == rows.target)
    assert ours >= reference.score(X, rows.target) - 0.002
    if C < 1:
        np.testing.assert_allclose(weights[:-1], reference.coef_[0], rtol=0, atol=0.02)
