"""Sensitivities: never exceeded, nearly reached, monotone exactly where declared."""

import itertools
import math

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.growing.candidates import Candidates
from hedgerow.trees.growing.criteria import CRITERIA, Public, criterion_named, n_log_n
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from tests.trees.small_tables import scores_from_histogram, split_score

CLASSES = ["max", "gini", "entropy", "gain"]
SHIFT = 12


def one_attribute(branches):
    return Candidates.from_bins([branches], [False], "wary")


def real(name, tables):
    return scores_from_histogram(tables, one_attribute(tables.shape[1]), CRITERIA[name])[:, 0]


def exact(name, tables, public, shift=SHIFT):
    those = one_attribute(tables.shape[1])
    return integer_scores_from_histogram(tables, those, CRITERIA[name], public, shift)[:, 0]


def all_tables(branches, classes, most):
    """Every table of counts with at most `most` in each cell, (tables, branches, classes)."""
    cells = itertools.product(range(most + 1), repeat=branches * classes)
    return np.array(list(cells), dtype=np.int64).reshape(-1, branches, classes)


def adversarial_tables():
    """Tables with large pure, balanced and empty parts, (tables, 3, 3)."""
    levels = np.array([0, 0, 0, 1, 2, 7, 100, 1000])
    rng = np.random.default_rng(7)
    drawn = rng.choice(levels, size=(3000, 3, 3))
    split_in_two = np.zeros((1, 3, 3), dtype=np.int64)
    split_in_two[0, 0, 0], split_in_two[0, 0, 1], split_in_two[0, 1, 0] = 1, 1000, 1000
    pure = np.zeros((1, 3, 3), dtype=np.int64)
    pure[0, 0, 0] = 2000
    return np.concatenate([drawn, split_in_two, pure]).astype(np.int64)


def with_one_more(tables):
    """Every neighbour with one more record, (cells, tables, branches, classes)."""
    units = np.eye(tables[0].size, dtype=np.int64).reshape(-1, 1, *tables.shape[1:])
    return tables[None] + units


def families():
    return {
        "2x2": all_tables(2, 2, 5),
        "2x3": all_tables(2, 3, 2),
        "3x2": all_tables(3, 2, 2),
        "3x3": adversarial_tables(),
    }


def changes(score, tables):
    """Score changes: by adding a record, and by replacing one."""
    before = score(tables)
    more = with_one_more(tables)
    after = np.stack([score(neighbour) for neighbour in more])
    added = after - before
    # The tables of `more` that differ in where the last record lies are replace neighbours.
    replaced = after[:, None] - after[None]
    return added, replaced


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("family", ["2x2", "2x3", "3x2", "3x3"])
def test_real_scores_stay_within_their_sensitivity(name, family):
    tables = families()[family]
    criterion = CRITERIA[name]
    added, replaced = changes(lambda t: real(name, t), tables)
    capacity = int(tables.sum(axis=(1, 2)).max()) + 1
    slack = 1e-9 * capacity
    assert np.abs(added).max() <= criterion.add_remove(Public(capacity)) + slack
    assert np.abs(replaced).max() <= criterion.replace(Public(capacity)) + slack
    if criterion.monotone:
        sign = 1 if name == "max" else -1
        assert (sign * added).min() >= -slack
    else:
        assert added.min() < -0.5
        assert added.max() > 0.5


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("family", ["2x2", "2x3", "3x2", "3x3"])
def test_integer_scores_stay_within_their_sensitivity_exactly(name, family):
    tables = families()[family]
    public = Public(int(tables.sum(axis=(1, 2)).max()) + 1)
    sensitivity = CRITERIA[name].integer_sensitivity(public, SHIFT)
    added, replaced = changes(lambda t: exact(name, t, public), tables)
    assert added.dtype == np.int64
    assert np.abs(added).max() <= sensitivity.add_remove
    assert np.abs(replaced).max() <= sensitivity.replace
    if sensitivity.monotone:
        assert (added if name == "max" else -added).min() >= 0
    else:
        assert added.min() < 0 < added.max()


@pytest.mark.parametrize(
    ("name", "add_remove", "replace"),
    [("max", 1.0, 1.0), ("gini", 0.99, 0.99), ("entropy", 0.98, 0.98), ("gain", 0.94, 0.9)],
)
def test_sensitivities_are_nearly_reached(name, add_remove, replace):
    """The written factors are shares of the declared sensitivity that some table reaches."""
    largest_added = largest_replaced = 0.0
    criterion = CRITERIA[name]
    for tables in (adversarial_tables()[-1:], adversarial_tables()[-2:-1]):
        public = Public(int(tables.sum()) + 1)
        sensitivity = criterion.integer_sensitivity(public, SHIFT)
        added, replaced = changes(lambda t, public=public: exact(name, t, public), tables)
        largest_added = max(largest_added, np.abs(added).max() / sensitivity.add_remove)
        largest_replaced = max(largest_replaced, np.abs(replaced).max() / sensitivity.replace)
    assert add_remove <= largest_added <= 1.0
    assert replace <= largest_replaced <= 1.0


def test_gain_pays_twice_under_replace():
    """With three branches and three classes one replaced record moves the gain by 2 log2 m."""
    m = 1000
    before = np.array([[[1, m, 0], [m, 0, 0], [0, 0, 0]]])
    after = np.array([[[0, m, 0], [m, 0, 0], [0, 0, 1]]])
    change = float(real("gain", after)[0] - real("gain", before)[0])
    public = Public(2 * m + 1)
    assert change == pytest.approx(2 * (math.log2(m) + 1 / math.log(2)), abs=0.01)
    assert change > CRITERIA["gain"].add_remove(public)
    assert change <= CRITERIA["gain"].replace(public)


def test_squared_error_within_bounds():
    rng = np.random.default_rng(3)
    lo, hi = -3, 5
    criterion, public = CRITERIA["squared_error"], Public(402, bounds=(lo, hi))
    width = (hi - lo) ** 2
    sensitivity = criterion.integer_sensitivity(public, SHIFT)
    assert sensitivity == (width << SHIFT, width << SHIFT, True)
    largest = 0
    for n in (0, 1, 2, 5, 400):
        for _ in range(40):
            y = rng.choice([lo, lo, hi, 0, 1], size=n) if rng.random() < 0.7 else np.full(n, lo)
            branch = rng.integers(0, 2, n) if rng.random() < 0.5 else np.zeros(n, int)
            tables = []
            for extra in (None, lo, 0, hi):
                table = np.zeros((2, 3), dtype=np.int64)
                np.add.at(table, branch, np.stack([np.ones_like(y), y, y * y], axis=1))
                if extra is not None:
                    table[0] += (1, extra, extra * extra)
                tables.append(table)
            tables = np.stack(tables)
            scores = exact("squared_error", tables, public)
            added = scores[1:] - scores[0]
            assert added.max() <= 0
            assert np.abs(scores[1:, None] - scores[None, 1:]).max() <= sensitivity.replace
            largest = max(largest, -added.min())
            np.testing.assert_allclose(
                scores / 2**SHIFT, real("squared_error", tables.astype(float)), atol=2 / 2**SHIFT
            )
    assert 0.99 * sensitivity.add_remove <= largest <= sensitivity.add_remove
    assert criterion.add_remove(public) == criterion.replace(public) == width


@pytest.mark.parametrize("name", CLASSES)
def test_scores_follow_their_definition(name):
    tables = adversarial_tables()[:300]
    expected = [split_score(name, table) for table in tables]
    np.testing.assert_allclose(real(name, tables), expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_integer_scores_lie_on_the_grid_beside_the_real_ones(name):
    tables = adversarial_tables()
    public = Public(int(tables.sum(axis=(1, 2)).max()))
    scores = exact(name, tables, public)
    if name == "max":
        np.testing.assert_array_equal(scores, real(name, tables))
        return
    n = tables.sum(axis=(1, 2))
    # Each branch of gini is rounded down once; each n log2 n is off by n * 2^-(s+1).
    error = 3 if name == "gini" else 2 * n + 1
    assert (np.abs(scores - real(name, tables) * 2.0**SHIFT) <= error).all()


def test_gini_is_the_exact_floor():
    rng = np.random.default_rng(5)
    tables = rng.integers(0, 100_000, size=(200, 1, 4))
    scores = exact("gini", tables, Public(1 << 20), shift=20)
    for table, score in zip(tables[:, 0].tolist(), scores.tolist(), strict=True):
        n, squares = sum(table), sum(c * c for c in table)
        assert score == (squares << 20) // n - (n << 20)


def test_the_table_is_convex_and_close():
    for capacity, shift in ((1, 8), (2, 8), (5000, 0), (5000, 16), (200_000, 24)):
        table = n_log_n(capacity, shift)
        steps = np.diff(table)
        assert table.shape == (capacity + 1,)
        assert table[0] == table[1] == 0
        assert (np.diff(steps) >= 0).all()
        n = np.arange(1, capacity + 1)
        error = np.abs(table[1:] / 2.0**shift - n * np.log2(n))
        assert (error <= n * (2.0 ** -(shift + 1) + 2.0**-40)).all()
        real_step = CRITERIA["entropy"].add_remove(Public(capacity))
        assert steps[-1] <= math.ceil(real_step * 2.0**shift)


def test_declared_sensitivities():
    public = Public(capacity=1023, bounds=(0.0, 2.0))
    log = 10 + 1 / math.log(2)
    declared = {
        name: (c.add_remove(public), c.replace(public), c.monotone) for name, c in CRITERIA.items()
    }
    assert declared == {
        "max": (1, 1, True),
        "gini": (2, 2, True),
        "entropy": (log, log, True),
        "gain": (log, 2 * log, False),
        "squared_error": (4, 4, True),
    }
    assert CRITERIA["max"].integer_sensitivity(Public(), 0).add_remove == 1
    assert CRITERIA["gini"].integer_sensitivity(public, 10).add_remove == 2 * 1024


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: CRITERIA["entropy"].add_remove(Public()), Code.MISSING_CAPACITY),
        (lambda: CRITERIA["entropy"].table(Public(), 4), Code.MISSING_CAPACITY),
        (lambda: CRITERIA["squared_error"].add_remove(Public(9)), Code.BAD_TARGET),
        (lambda: CRITERIA["gini"].integer_sensitivity(Public(1 << 40), 30), Code.BAD_PARAMETER),
        (lambda: CRITERIA["gini"].integer_sensitivity(Public(10), -1), Code.BAD_PARAMETER),
        (
            lambda: CRITERIA["squared_error"].table(Public(9, bounds=(0.0, 0.5)), 4),
            Code.BAD_PARAMETER,
        ),
        (lambda: criterion_named("squared_error", "classes"), Code.BAD_PARAMETER),
        (lambda: criterion_named("twoing", "classes"), Code.BAD_PARAMETER),
    ],
)
def test_refusals(call, code):
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code
