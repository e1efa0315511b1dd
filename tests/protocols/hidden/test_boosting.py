import math

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

from hedgerow.protocols.checkpoint import NoCheckpoints
from hedgerow.protocols.growers.choices import RandomSplits
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.hidden.options import plan_boosting
from hedgerow.protocols.run import EngineName
from hedgerow.protocols.sharing.table import SecretTable
from hedgerow.secure.ring import Z32
from hedgerow.tables import Encoded
from tests.protocols.hidden.number_runs import CAPACITY, ENGINES, classes, fit, numbers, transcript
from tests.protocols.hidden.test_number_checkpoint import opened, trained
from tests.protocols.sharing.shared_tables import one_hot
from tests.secure.engines import ENGINES as SHARING
from tests.secure.engines import reveal, share

NUMBERS, CLASSES = numbers(), classes()
LIKE = {"n_estimators": 5, "max_depth": 2, "learning_rate": 0.3, "random_state": 0}
OURS = {"n_rounds": 5, "depth": 2, "learning_rate": 0.3}


def columns(table: Encoded):
    """Return what scikit-learn splits as we do: bins, and one column per category."""
    bins = table.bins.astype(np.float64)
    return np.hstack([bins[:, [0, 1, 3]], bins[:, [2]] == np.arange(3)])


@pytest.mark.parametrize("engine", ENGINES)
def test_without_noise_scores_are_those_of_scikit_learn(engine: EngineName) -> None:
    plan = plan_boosting(CLASSES.domain, noise="none", **OURS)
    model = fit("hidden-boosting", plan, CLASSES, engine)
    oracle = GradientBoostingClassifier(**LIKE).fit(columns(CLASSES), CLASSES.target)
    expected = oracle.decision_function(columns(CLASSES))
    scores = model.ask(CLASSES.bins, "score")[:, 0]
    assert np.quantile(np.abs(scores - expected), 0.95) < 2e-3
    found = model.ask(CLASSES.bins, "class")
    assert np.array_equal(found, scores > 0)
    assert np.mean(found == oracle.predict(columns(CLASSES))) >= 0.995


@pytest.mark.parametrize("engine", ENGINES)
def test_without_noise_values_are_those_of_scikit_learn(engine: EngineName) -> None:
    plan = plan_boosting(NUMBERS.domain, noise="none", **OURS)
    answers = fit("hidden-boosting", plan, NUMBERS, engine).ask(NUMBERS.bins)
    oracle = GradientBoostingRegressor(**LIKE).fit(columns(NUMBERS), NUMBERS.target)
    expected = oracle.predict(columns(NUMBERS))
    # A gradient is rounded to 2^-13 of half the bounds' width, 16.
    assert np.quantile(np.abs(answers - expected), 0.95) < 16 * 2.0**-12


@pytest.mark.parametrize("engine", ENGINES)
def test_more_classes_are_boosted_one_against_the_rest(engine: EngineName) -> None:
    table = classes(k=3)
    plan = plan_boosting(table.domain, noise="none", **OURS)
    model = fit("hidden-boosting", plan, table, engine)
    scores, found = model.ask(table.bins, "score"), model.ask(table.bins, "class")
    assert np.array_equal(found, scores.argmax(axis=1))
    for c in range(3):
        oracle = GradientBoostingClassifier(**LIKE).fit(columns(table), table.target == c)
        expected = oracle.decision_function(columns(table))
        assert np.quantile(np.abs(scores[:, c] - expected), 0.95) < 2e-3


@pytest.mark.parametrize("make", [numbers, classes])
def test_three_servers_do_what_the_clear_engine_does(make) -> None:
    table = make()
    plan = plan_boosting(table.domain, noise="none", **OURS)
    what = "score" if plan.loss == "logistic" else "value"
    one, other = (fit("hidden-boosting", plan, table, e).ask(table.bins, what) for e in ENGINES)
    # Truncations end up to one unit apart, which decides near ties differently.
    assert np.quantile(np.abs(one - other), 0.95) < 5e-3


@pytest.mark.parametrize("random_splits", [False, True])
@pytest.mark.parametrize("k", [0, 2, 3])
def test_the_ledger_has_epsilon_for_all_trees_together(k: int, random_splits: bool) -> None:
    table = classes(k=k) if k else NUMBERS
    plan = plan_boosting(
        table.domain, epsilon=1.3, n_rounds=3, depth=2, random_splits=random_splits
    )
    model = fit("hidden-boosting", plan, table, "simulate")
    total = model.ledger.total("analyst")
    assert total.epsilon <= 1.3
    assert total.epsilon == pytest.approx(1.3, rel=1e-12)
    assert 0 < total.delta < 2**-50
    assert model.ledger.total("server 1").epsilon == 0
    per_tree = 2 + (0 if random_splits else plan.depth)
    assert len(model.ledger.releases) == per_tree * 3 * (3 if k == 3 else 1)
    answers = model.ask(table.bins, "class" if k else "value")
    assert answers.shape == (len(table.bins),)


@pytest.mark.parametrize("k", [2, 3])
def test_every_round_has_public_coins_of_its_own(k: int) -> None:
    options = {"n_rounds": 3, "depth": 2, "random_splits": True, "public_seed": 4}
    plan = plan_boosting(classes(k=k).domain, noise="none", **options)
    splits, _ = opened(trained("hidden-boosting", plan, NoCheckpoints()))
    of = plan.n_scores, len(plan.layout.candidates)
    drawn = [
        [
            RandomSplits(4, f"hidden/round {turn}").draw(level, (of[0], 1 << level, of[1]), None)
            for level in range(2)
        ]
        for turn in range(3)
    ]
    assert np.array_equal(splits, np.concatenate([np.concatenate(two, axis=1) for two in drawn]))
    assert len(np.unique(splits, axis=0)) == plan.n_trees


def test_without_noise_there_is_no_finite_epsilon() -> None:
    plan = plan_boosting(CLASSES.domain, noise="none", n_rounds=1)
    ledger = fit("hidden-boosting", plan, CLASSES, "clear").ledger
    assert ledger.total("analyst").epsilon == math.inf
    assert ledger.total("server 0").epsilon == 0


@pytest.mark.parametrize("make", [numbers, classes])
def test_little_noise_learns(make) -> None:
    table = make()
    plan = plan_boosting(table.domain, epsilon=300.0, n_rounds=5, depth=2, learning_rate=0.5)
    model = fit("hidden-boosting", plan, table, "clear", seed=3)
    if plan.loss == "logistic":
        guess = max(np.mean(table.target), 1 - np.mean(table.target))
        assert np.mean(model.ask(table.bins, "class") == table.target) > guess + 0.1
    else:
        error = np.mean((model.ask(table.bins) - table.target) ** 2)
        assert error < 0.5 * np.var(table.target)


@pytest.mark.parametrize("make", [numbers, classes])
@pytest.mark.parametrize("noise", ["none", "splits+leaves"])
def test_transcripts_have_one_shape_for_all_tables(make, noise: str) -> None:
    table = make()
    plan = plan_boosting(table.domain, noise=noise, n_rounds=2, depth=2)  # type: ignore[arg-type]
    first = transcript("hidden-boosting", plan, table)
    assert first == transcript("hidden-boosting", plan, make(seed=1, n=20))
    assert len(first) > 50


@pytest.mark.parametrize("make", [numbers, classes])
def test_no_record_and_one_class_are_tables_too(make) -> None:
    table = make(n=CAPACITY)
    plan = plan_boosting(table.domain, noise="none", n_rounds=2, depth=2)
    what = "score" if plan.loss == "logistic" else "value"
    none = Encoded(table.domain, table.bins, table.target, np.zeros(CAPACITY, dtype=np.bool_))
    assert np.allclose(
        fit("hidden-boosting", plan, none, "clear").ask(table.bins, what),
        0.0 if what == "score" else plan.units.centre,
        atol=1e-4,
    )
    alike = Encoded(table.domain, table.bins, np.ones_like(table.target), table.present)
    answers = fit("hidden-boosting", plan, alike, "clear").ask(table.bins, what)
    assert np.all(answers > 5) if what == "score" else np.allclose(answers, 1.0, atol=1e-2)


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_trees_of_a_round_have_columns_of_their_own_and_rows_find_their_leaves(name: str) -> None:
    engine, rng = SHARING[name](), np.random.default_rng(0)
    layout = plan_boosting(CLASSES.domain, depth=2).layout
    t, n = 3, len(CLASSES.bins)
    onehot = one_hot(layout, CLASSES)
    present = rng.integers(0, 2, n)
    columns = np.stack([present * np.ones((t, n), int), rng.integers(-99, 99, (t, n))], axis=2)
    columns *= present[:, None]
    table = SecretTable(layout, share(engine, onehot, Z32), share(engine, columns, Z32))
    masks = Masks(table, member=np.array([1, 0], dtype=np.uint8))
    node = np.zeros((t, n), dtype=int)
    for level in range(2):
        inside = node[:, None, :] == np.arange(2**level)[:, None]
        found = Z32.signed(reveal(masks.histogram()))
        assert np.array_equal(found, np.einsum("tjn,tnk,nb->tjkb", inside, columns, onehot))
        chosen = rng.integers(0, len(layout.candidates), (t, 2**level))
        left = onehot @ layout.left.T.astype(int)
        node = 2 * node + 1 - left[np.arange(n), np.take_along_axis(chosen, node, axis=1)]
        choice = engine.public(as_one_hot(chosen, len(layout.candidates)), Z32)
        if level == 0:
            masks.descend(choice)
    rows = Z32.signed(reveal(masks.leaves(choice).masks))
    assert np.array_equal(rows, (node[:, None, :] == np.arange(4)[:, None]) & (present == 1))
