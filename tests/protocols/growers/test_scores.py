import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.growers import scores as scores_module
from hedgerow.protocols.growers.scores import Scores
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine
from hedgerow.tables import Encoded
from hedgerow.trees.counts.rows import Rows
from hedgerow.trees.growing.candidates import Branching, Candidates
from hedgerow.trees.growing.criteria import CRITERIA, Public
from hedgerow.trees.growing.scoring import integer_scores_from_histogram
from tests.secure.engines import clear, metered, reveal, share, three_servers
from tests.trees.tree_strategies import random_bins, random_domain

NAMES = ["max", "gini", "squared_error"]
BRANCHINGS: list[Branching] = ["binary", "wary"]
LOW, HIGH = -7, 20
CAPACITY = 90


@pytest.fixture(scope="module", params=[clear, three_servers], ids=["clear", "three servers"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param()


def columns_of(hist: NDArray[np.int64], candidates: Candidates, name: str) -> NDArray[np.int64]:
    """Histograms (nodes, total bins, channels) as the servers hold them: (nodes, k, B)."""
    known = hist[..., :2] if name == "squared_error" else hist
    if candidates.kinds[0] != 4:
        return known.transpose(0, 2, 1)
    width = int(candidates.n_bins.max())
    out = np.zeros((len(hist), known.shape[2], candidates.n_features, width), dtype=np.int64)
    for j, (first, n_bins) in enumerate(zip(candidates.offset, candidates.n_bins, strict=False)):
        out[:, :, j, :n_bins] = known[:, first : first + n_bins].transpose(0, 2, 1)
    return out.reshape(len(hist), known.shape[2], -1)


def grown(
    seed: int, name: str, branching: Branching
) -> tuple[Rows, NDArray[np.int64], NDArray[np.int64]]:
    """Rows of a random table after two levels of splits, all nodes, and their histograms."""
    rng = np.random.default_rng(seed)
    regression = name == "squared_error"
    while True:
        domain = random_domain(rng, classes=0 if regression else int(rng.integers(2, 5)))
        candidates = Candidates.from_domain(domain, branching)
        if len(candidates):
            break
    n = int(rng.integers(1, CAPACITY + 1))
    bins = random_bins(rng, domain, n)
    classes = 1 if regression else len(domain.target.classes)
    # Skewed, so that pure and empty branches are common.
    target = (rng.random(n) ** 3 * classes).astype(np.uint8)
    numbers = rng.integers(LOW, HIGH, n, endpoint=True) if regression else None
    table = Encoded(domain, bins, target, rng.random(n) < 0.8)
    rows = Rows(table, candidates, target=numbers)
    nodes = np.zeros(1, dtype=np.int64)
    for _ in range(2):
        rows.split(nodes, rng.integers(0, len(candidates), nodes.size))
        nodes = np.arange(nodes[-1] + 1, rows.n_nodes)
    every = np.arange(rows.n_nodes)
    return rows, every, columns_of(rows.histogram(every), candidates, name)


def expected_scores(rows: Rows, nodes: NDArray[np.int64], scores: Scores) -> NDArray[np.int64]:
    """Integer scores of the learner in the clear, less what the histogram does not have."""
    known = rows.integer_scores(nodes, scores.criterion, scores.public, scores.shift)
    if scores.criterion.name == "squared_error":
        known = known + (rows.counts(nodes)[:, 2:] << scores.shift)
    return known


def make(candidates: Candidates, name: str, shift: int, **options: object) -> Scores:
    public = Public(CAPACITY, bounds=(LOW, HIGH))
    return Scores(candidates, CRITERIA[name], public, shift, **options)


def signed(scores: Scores, hist: NDArray[np.int64], engine: Engine, ring: Ring) -> NDArray:
    got = scores(share(engine, hist, ring))
    assert got.ring == scores.ring(ring) == (ring if scores.criterion.name == "max" else Z64)
    return got.ring.signed(reveal(got))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1), ring=st.sampled_from([Z16, Z32, Z64]), shift=st.integers(0, 12)
)
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_the_learner_in_the_clear(
    engine: Engine, name: str, branching: Branching, seed: int, ring: Ring, shift: int
) -> None:
    rows, nodes, hist = grown(seed, name, branching)
    scores = make(rows.candidates, name, shift)
    got = signed(scores, hist, engine, ring)
    np.testing.assert_array_equal(got, expected_scores(rows, nodes, scores))
    assert np.abs(got).max() <= scores.bound


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), ring=st.sampled_from([Z16, Z32, Z64]))
@pytest.mark.parametrize("name", NAMES)
def test_ties_go_to_splits_without_an_empty_branch(
    engine: Engine, name: str, seed: int, ring: Ring
) -> None:
    rows, nodes, hist = grown(seed, name, "binary")
    those = rows.candidates
    scores = make(those, name, 4, prefer_nonempty=True)
    size = rows.sizes(nodes)[:, None]
    counts = hist[:, 0] if name == "squared_error" else hist.sum(axis=1)
    running = np.pad(counts.cumsum(axis=1), [(0, 0), (1, 0)])
    first = those.offset[those.feature]
    start = np.where(those.kind == 1, first, first + those.cut)
    left = running[:, first + those.cut + 1] - running[:, start]
    filled = (left > 0) & (left < size)
    expected = expected_scores(rows, nodes, scores) + 2 * filled
    np.testing.assert_array_equal(signed(scores, hist, engine, ring), expected)
    assert np.abs(expected).max() <= scores.bound


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_equal_attributes_tie_and_empty_nodes_score_nothing(
    engine: Engine, name: str, branching: Branching
) -> None:
    candidates = Candidates.from_bins([4, 4, 3, 3], [True, True, False, False], branching)
    rng = np.random.default_rng(3)
    hist = np.zeros((3, 2, 14 if branching == "binary" else 16), dtype=np.int64)
    wide, narrow = rng.integers(0, 6, (2, 4)), np.zeros((2, 3), dtype=np.int64)
    narrow[:, :2] = wide[:, :2] + wide[:, 2:]
    pad = [narrow] if branching == "binary" else [np.pad(narrow, [(0, 0), (0, 1)])]
    hist[1] = np.concatenate([wide, wide, *pad, *pad], axis=1)
    got = signed(make(candidates, name, 6), hist, engine, Z16)
    half = [slice(j, j + n) for j, n in zip(candidates.first, candidates.per_feature, strict=False)]
    np.testing.assert_array_equal(got[:, half[0]], got[:, half[1]])
    np.testing.assert_array_equal(got[:, half[2]], got[:, half[3]])
    assert not got[[0, 2]].any()


EXTREMES = [
    ("max", Z16, 2**15 - 1, (0, 0), 0),
    ("max", Z32, 2**31 - 1, (0, 0), 0),
    ("gini", Z16, 2**15 - 1, (0, 0), 10),
    ("gini", Z32, 2**25 - 1, (0, 0), 10),
    ("gini", Z32, 2**20, (0, 0), 19),
    ("gini", Z32, 1, (0, 0), 10),
    ("squared_error", Z16, 150, (-109, 109), 10),
    ("squared_error", Z32, 2**15 - 1, (-(2**15) + 1, 2**15), 0),
    ("squared_error", Z32, 2**16, (-5, -3), 20),
    ("squared_error", Z64, 2**12 - 1, (2**17 - 2, 2**17 - 1), 2),
]


@pytest.mark.parametrize(("name", "ring", "capacity", "bounds", "shift"), EXTREMES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_numbers_at_the_ends_of_their_range(
    engine: Engine,
    name: str,
    ring: Ring,
    capacity: int,
    bounds: tuple[int, int],
    shift: int,
    branching: Branching,
) -> None:
    candidates = Candidates.from_bins([3, 3], [True, False], branching)
    rng = np.random.default_rng(capacity)
    hist = np.zeros((12, 6, 3), dtype=np.int64)
    for node in range(12):
        # All in one bin; nearly all in one bin; two halves; anything.
        share_of = [[1, 0, 0], [1 - 1e-6, 0, 1e-6], [0.5, 0, 0.5], rng.dirichlet([0.3] * 3)]
        sizes = np.floor(capacity * np.array(share_of[node % 4])).astype(np.int64)
        sizes[0] += capacity - sizes.sum()
        where = rng.permuted(sizes)
        if name == "squared_error":
            y = [bounds[0], bounds[1], (bounds[0] + bounds[1]) // 2][node // 4]
            row = np.stack([where, where * y, where * y * y], axis=1)
        else:
            one = where * (node // 4) // 2
            row = np.stack([one, where - one, where * 0], axis=1)
        hist[node] = np.concatenate([row, row[::-1]])
    public = Public(capacity, bounds=bounds)
    scores = Scores(candidates, CRITERIA[name], public, shift)
    expected = integer_scores_from_histogram(hist, candidates, CRITERIA[name], public, shift)
    if name == "squared_error":
        expected += hist[:, :3, 2].sum(axis=1, keepdims=True) << shift
    got = signed(scores, columns_of(hist, candidates, name), engine, ring)
    np.testing.assert_array_equal(got, expected)
    assert np.abs(got).max() <= scores.bound


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("branching", BRANCHINGS)
def test_leading_axes_and_blocks_change_nothing(
    engine: Engine, name: str, branching: Branching, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _, hist = grown(11, name, branching)
    hist = hist[:6]
    prefer = branching == "binary"
    scores = make(rows.candidates, name, 5, prefer_nonempty=prefer)
    whole = signed(scores, hist, engine, Z32)
    assert np.array_equal(signed(scores, hist[0], engine, Z32), whole[0])
    both = np.stack([hist[1:3], hist[3:5]])
    cubes = signed(scores, both, engine, Z32)
    assert np.array_equal(cubes, np.stack([whole[1:3], whole[3:5]]))
    rounds = scores.cost(engine, hist.shape, Z32).rounds
    # One node at a time, and branches of a node in several pieces.
    monkeypatch.setattr(scores_module, "_BRANCHES", 3)
    assert np.array_equal(signed(scores, hist, engine, Z32), whole)
    x = share(engine, hist, Z32)
    spent = metered(engine, lambda: scores(x))
    assert spent == scores.cost(engine, hist.shape, Z32)
    assert spent.rounds >= rounds * len(hist)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("name", NAMES)
def test_costs_are_as_declared(engine: Engine, name: str, branching: Branching, ring: Ring) -> None:
    candidates = Candidates.from_bins([5, 4, 1, 2], [True, False, True, False], branching)
    columns = 12 if branching == "binary" else 20
    for k in [2] if name == "squared_error" else [1, 2, 5]:
        for lead in ((), (3,), (2, 4)):
            for prefer in (False, True)[: 1 + (branching == "binary")]:
                scores = make(candidates, name, 8, prefer_nonempty=prefer)
                x = share(engine, np.ones((*lead, k, columns), dtype=int), ring)
                spent = metered(engine, lambda f=scores, x=x: f(x))
                assert spent == scores.cost(engine, x.shape, ring)


BINARY = Candidates.from_bins([3, 2], [True, False])
WARY = Candidates.from_bins([3, 2], [True, False], "wary")


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: make(BINARY, "entropy", 4), Code.BAD_PARAMETER),
        (lambda: make(WARY, "max", 0, prefer_nonempty=True), Code.BAD_PARAMETER),
        (lambda: make(Candidates.from_bins([1], [True]), "max", 0), Code.BAD_PARAMETER),
        (
            lambda: make(Candidates(np.array([2, 2]), np.array([1, 4])), "max", 0),
            Code.BAD_PARAMETER,
        ),
        (lambda: make(BINARY, "gini", -1), Code.BAD_PARAMETER),
        (lambda: make(BINARY, "gini", 50), Code.BAD_PARAMETER),
        (lambda: Scores(BINARY, CRITERIA["max"], Public()), Code.MISSING_CAPACITY),
        (lambda: Scores(BINARY, CRITERIA["squared_error"], Public(5)), Code.BAD_TARGET),
    ],
)
def test_parameters_that_do_not_fit_are_refused(call: object, code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("name", "capacity", "shape", "ring", "code"),
    [
        ("max", 2**15, (2, 5), Z16, Code.BAD_PARAMETER),
        ("gini", 2**15, (2, 5), Z16, Code.BAD_PARAMETER),
        ("squared_error", 2**11, (2, 5), Z16, Code.BAD_PARAMETER),
        ("max", 9, (2, 6), Z16, Code.WRONG_SHAPE),
        ("max", 9, (4, 5), Z16, Code.WRONG_SHAPE),
        ("squared_error", 9, (3, 5), Z16, Code.WRONG_SHAPE),
        ("max", 9, (5,), Z16, Code.WRONG_SHAPE),
    ],
)
def test_histograms_that_do_not_fit_are_refused(
    name: str, capacity: int, shape: tuple[int, ...], ring: Ring, code: Code
) -> None:
    e = clear()
    scores = Scores(BINARY, CRITERIA[name], Public(capacity, 2, (LOW, HIGH)))
    hist = e.public(np.zeros(shape, dtype=int), ring)
    for call in (lambda: scores(hist), lambda: scores.cost(e, shape, ring)):
        with pytest.raises(HedgerowError) as caught:
            call()
        assert caught.value.code is code


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_refused_where_ties_are_broken(name: str) -> None:
    plain = make(BINARY, name, 4)
    assert plain.sensitivity == CRITERIA[name].integer_sensitivity(plain.public, 4)
    with pytest.raises(HedgerowError, match="where noise is added"):
        _ = make(BINARY, name, 4, prefer_nonempty=True).sensitivity
