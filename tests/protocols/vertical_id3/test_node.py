"""Questions about a node: whether attributes remain and nothing else, gains, and the best site."""

import itertools

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.messages import (
    AskGain,
    CompareReply,
    CompareStart,
    GainReply,
    Sum,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.node import GRID, information_gain, is_r_empty
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from reproduce.paper_002.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import PAPER, Wire, growing, grown, sites_of, weather

GROUPS = [[0, 1], [2], [3]]


def fresh() -> list[Site]:
    sites = sites_of(weather(), GROUPS, class_at=0)
    grown(sites)
    growing(sites)
    return sites


def asked(sites: list[Site], first: int, tap: Wire | None = None) -> bool:
    done: list[bool] = []
    local = LocalSites(sites, tap)
    out = local.programs[first].start(is_r_empty(sites[first]), done.append)
    local._carry([(first, out)])
    return done[0]


def use_up(site: Site, used: bool) -> None:
    for attribute in range(len(site.constraints.tuple)):
        if used:
            site.constraints.set(attribute, 0)


def test_empty_if_and_only_if_no_site_has_attributes() -> None:
    for flags in itertools.product([False, True], repeat=3):
        sites = fresh()
        for site, left in zip(sites, flags, strict=True):
            use_up(site, not left)
        for first in range(3):
            assert asked(sites, first) == (not any(flags))


def test_one_message_each_and_four_encryptions() -> None:
    sites, wire = fresh(), Wire()
    before = sum(site.meter.comparisons for site in sites)
    asked(sites, 1, wire)
    kinds = [(sender, to, type(message)) for sender, to, message in wire.messages]
    assert set(kinds) == {
        (1, 2, Sum),
        (2, 0, Sum),
        (1, 0, CompareStart),
        (0, 1, CompareReply),
    }
    assert len(kinds) == 4
    assert sum(site.meter.comparisons for site in sites) - before == 4


def test_sums_in_passing_are_uniform(chi_square: object) -> None:
    sites = fresh()
    for site in sites:
        # More questions than any tree of this table can ask, which the declaration would refuse.
        site.learn = lambda name, shape: None  # type: ignore[method-assign]
    tops = []
    for _ in range(300):
        wire = Wire()
        asked(sites, 0, wire)
        tops.append([message.total >> 62 for message in wire.of(Sum)])
    counts = np.array([np.bincount(column, minlength=4) for column in np.array(tops).T])
    # Drawn by the operating system: a bound that chance passes once in ten million runs.
    assert all(chi_square(row, np.full(4, 0.25)) > 1e-7 for row in counts)


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        (1, Sum(9, (0, 1), 5)),
        (1, Sum(9, (0, 1, 2), 5)),
        (2, Sum(9, (1, 2, 2), 5)),
        (1, Sum(9, (1, 2, 0), 5)),
    ],
)
def test_sums_out_of_turn_are_refused(sender: int, message: Sum) -> None:
    with pytest.raises(HedgerowError, match=f"from site {sender}") as caught:
        SiteProgram(fresh()[0]).receive(sender, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


def entropy(counts: np.ndarray) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


# Tables of counts, and their gains in units of 2^-40, from logarithms of 200 digits.
FIXED = {
    ((3, 2), (4, 0), (2, 3)): 271304295994,
    ((7957, 1200), (3, 19999)): 734809792017,
    ((1, 0), (0, 1)): 1099511627776,
    ((123456, 98765), (54321, 7), (1, 2)): 157843917534,
    ((6, 8), (3, 4)): 0,
}


def table(column: int) -> np.ndarray:
    encoded = weather()
    found = np.zeros((int(encoded.domain.n_bins[column]), 2), dtype=np.int64)
    np.add.at(found, (encoded.bins[:, column], encoded.target), 1)
    return found


@pytest.mark.parametrize(("column", "gain"), [(0, 0.246), (1, 0.029), (2, 0.151), (3, 0.048)])
def test_quinlans_gains(column: int, gain: float) -> None:
    assert information_gain(table(column)) == pytest.approx(gain, abs=1e-3)


def test_the_formula_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        counts = rng.integers(0, 30, (rng.integers(1, 6), rng.integers(2, 5)))
        counts[0, 0] += 1
        n = counts.sum()
        rest = sum(entropy(row) * row.sum() / n for row in counts if row.sum())
        expected = entropy(counts.sum(axis=0)) - rest
        assert information_gain(counts) == pytest.approx(expected, abs=1e-12)


def test_the_order_of_values_and_classes_changes_no_digit() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        counts = rng.integers(0, 2000, (6, 5))
        moved = counts[rng.permutation(6)][:, rng.permutation(5)]
        assert information_gain(counts) == information_gain(moved)


def test_gains_lie_on_the_grid_and_are_the_same_on_every_machine() -> None:
    rng = np.random.default_rng(8)
    for _ in range(100):
        counts = rng.integers(0, 200_000, (4, 3))
        scaled = information_gain(counts) * 2.0**GRID
        assert scaled == int(scaled)
    # Logarithms come from correctly rounded digits, not from the processor: fixed figures.
    assert [round(information_gain(np.array(table)) * 2**GRID) for table in FIXED] == list(
        FIXED.values()
    )


def test_gains_that_are_equal_but_for_rounding_are_equal() -> None:
    # Ten times as many records of everything have the same gain, by other logarithms.
    rng = np.random.default_rng(9)
    for _ in range(200):
        counts = rng.integers(0, 500, (4, 3))
        assert information_gain(counts) == information_gain(10 * counts)


def test_nothing_gains_nothing() -> None:
    assert information_gain(np.zeros((3, 2), dtype=np.int64)) == 0.0
    assert information_gain(np.array([[4, 4]])) == 0.0


def test_the_best_gain_of_each_site_goes_to_the_site_that_runs_the_node() -> None:
    wire = Wire()
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites, wire)
    asked = [(sender, to) for sender, to, m in wire.messages if isinstance(m, AskGain)]
    answered = [(sender, to, m.gain) for sender, to, m in wire.messages if isinstance(m, GainReply)]
    # Root, humidity and wind are split; the first site runs all three, as their parent.
    assert asked == [(0, 1)] * 3
    assert [(sender, to) for sender, to, _ in answered] == [(1, 0)] * 3
    assert answered[0][2] == information_gain(table(2))


@pytest.mark.parametrize("gain", [-0.5, 1.5, float("inf"), float("nan")])
def test_an_impossible_gain_is_refused(gain: float) -> None:
    sites = sites_of(weather(), PAPER, class_at=0)

    def lie(sender: int, to: int, data: bytes) -> None:
        message = from_bytes(data, "x")
        if isinstance(message, GainReply):
            local.programs[to].receive(sender, to_bytes(GainReply(message.call, gain)))

    local = LocalSites(sites, lie)
    with pytest.raises(HedgerowError, match="from site 1") as caught:
        local.grow()
    assert caught.value.code is Code.SITE_CONTRADICTS
