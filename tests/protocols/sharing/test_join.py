"""The join: exactly the records that all have, at places that say nothing, at the declared cost."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.audit.bounds import epsilon_lower
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Leakage, NoiseSource, TwoSidedGeometric
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.join import OUT_OF_ORDER, cost_join, openings, tag_bits
from hedgerow.protocols.sharing.uploaded import (
    JOINED,
    deal_uploads,
    held_table,
    table_openings,
)
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.ring import Z16
from hedgerow.tables.ids import id_tags
from tests.protocols.hidden.hidden_jobs import DOMAIN, encoded
from tests.protocols.hidden.number_runs import Recorder
from tests.protocols.sharing.joined_tables import KEY, WIDTH, columns_of, ids_in, joined, owned
from tests.protocols.sharing.shared_tables import one_hot
from tests.secure.engines import ENGINES, metered, reveal

CASES = {
    "overlap": ([[1, 2, 3, 9], [2, 3, 4, 5, 6]], [7, 9], 10),
    "the same": ([[5, 6, 7], [7, 6, 5]], [3, 3], 3),
    "nothing in common": ([[1, 2], [3]], [2, 1], 4),
    "one slot each": ([[1], [1]], [1, 1], 1),
    "an empty owner": ([[], [1]], [3, 2], 2),
    "three owners": ([[5, 6, 7, 8], [6, 7, 8], [8, 7, 1]], [5, 4, 3], 3),
    "five owners": ([[*range(k, 40 + k)] for k in range(5)], [44, 41, 60, 43, 45], 70),
    "one owner": ([[4, 5]], [6], 9),
    "words": ([[*range(200)], [*range(100, 300)]], [200, 220], 200),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ["clear", "two peers", "three servers"])
def test_exactly_the_records_that_all_have(engine: str, case: str) -> None:
    sets, rows, n_slots = CASES[case]
    keeper, found = ENGINES[engine](), []
    held = [owned(ids, n, seed) for seed, (ids, n) in enumerate(zip(sets, rows, strict=True))]
    inputs = metered(keeper, lambda: _share(keeper, held))
    spent = metered(keeper, lambda: found.append(joined(keeper, held, n_slots)))
    assert spent == inputs + cost_join(keeper, rows, [1 + WIDTH] * len(rows), n_slots)
    assert found[0].shape == (1 + WIDTH * len(rows), n_slots)
    assert all(row["equal"] for row in keeper.leakage.compare())
    columns = ids_in(reveal(found[0]), len(rows))
    assert all(one == columns[0] for one in columns)
    assert sorted(i for i in columns[0] if i >= 0) == sorted(set.intersection(*map(set, sets)))


def _share(keeper, held) -> None:
    for pair in held:
        for bits in pair:
            keeper.input_bits(bits, 0, bits.shape)


@pytest.mark.parametrize("rows", [[1, 1], [4096, 4096], [32768, 32768], [1 << 32] * 1000])
def test_tags_of_two_ids_differ(rows: list[int]) -> None:
    pairs = sum(rows) ** 2 / 2
    assert pairs * 2.0 ** -tag_bits(rows) <= 2.0**-40


def test_what_is_sent_does_not_depend_on_who_is_in_common() -> None:
    """Rounds, routes and sizes are the same for all records in common and for none."""
    seen = []
    for other in (range(30), range(100, 105)):
        with Recorder(3) as network:
            engine = ReplicatedEngine(network, Leakage([]), insecure_seed=b"one")
            joined(engine, [owned(range(30), 33, 0), owned(other, 40, 1)], 33)
            seen.append(network.plans)
    assert len(seen[0]) > 90
    assert seen[0] == seen[1]


def test_an_owner_that_denies_a_record_has_it_not() -> None:
    engine = ENGINES["three servers"]()
    first, (tags, columns) = owned(range(8), 9, 0), owned(range(8), 12, 1)
    columns[0] &= np.arange(12) % 2 == 0
    kept = [int(i) for i in ids_in(columns, 1)[0] if i >= 0]
    assert 0 < len(kept) < 8
    found = ids_in(reveal(joined(engine, [first, (tags, columns)], 9)), 2)
    assert sorted(i for i in found[0] if i >= 0) == sorted(kept)
    assert found[0] == found[1]


@pytest.mark.parametrize("wrong", ["turned", "twice"])
def test_tags_that_do_not_ascend_are_refused_and_nothing_else_is_opened(wrong: str) -> None:
    engine = ENGINES["three servers"]()
    first, (tags, columns) = owned(range(8), 9, 0), owned(range(8), 12, 1)
    tags = tags[:, ::-1] if wrong == "turned" else np.where(np.arange(12) == 5, tags[:, 4:5], tags)
    with pytest.raises(HedgerowError) as caught:
        joined(engine, [first, (tags, columns)], 9)
    assert caught.value.code is Code.UPLOADS_DO_NOT_FIT
    assert "upload 2 of the job" in caught.value.found
    opened = {row["name"]: row["opened"] for row in engine.leakage.compare()}
    assert opened.pop(OUT_OF_ORDER) == 1
    assert set(opened.values()) == {0}


def test_a_table_that_is_too_small_for_the_join_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        joined(ENGINES["clear"](), [owned([1], 5, 0), owned([1], 6, 1)], 4)
    assert caught.value.code is Code.BAD_PARAMETER


@pytest.mark.parametrize(("others", "engine"), [(0, "clear"), (3, "three servers")])
def test_places_are_uniform_whoever_else_is_there(others: int, engine: str, chi_square) -> None:
    """Where record 7 lies, also given where another one does; slots of its owners stay the same."""
    made, ids = ENGINES[engine](), [7, *range(100, 100 + others)]
    held = [owned(ids, 5, 0), owned(ids[::-1], 6, 1)]
    places, pairs = np.zeros(6), np.zeros((6, 6))
    for _ in range(200):
        (found, _) = ids_in(reveal(joined(made, held, 6)), 2)
        places[found.index(7)] += 1
        if others:
            pairs[found.index(7), found.index(100)] += 1
    assert chi_square(places, np.full(6, 1 / 6)) > 1e-4
    if others:
        apart = pairs[~np.eye(6, dtype=bool)]
        assert np.trace(pairs) == 0
        assert chi_square(apart, np.full(30, 1 / 30)) > 1e-4


def test_what_is_opened_is_a_uniform_permutation(chi_square) -> None:
    """The order in which servers see an owner's slots: not those of records, nor of tags."""
    engine, seen = ENGINES["clear"](), np.zeros(6)
    held = [owned([1, 2], 3, 0), owned([2, 3], 3, 1)]
    opened = []
    real = engine.open
    engine.open = lambda x, name, to: opened.append((name, real(x, name, to))) or opened[-1][1]
    for _ in range(300):
        opened.clear()
        joined(engine, held, 3)
        moves = [tuple(values.tolist()) for name, values in opened if name != OUT_OF_ORDER]
        assert len(moves) == 2
        seen[
            sorted({(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)}).index(
                moves[0]
            )
        ] += 1
    assert chi_square(seen, np.full(6, 1 / 6)) > 1e-4


class Kept:
    """Stages that outlive an attempt."""

    def __init__(self) -> None:
        self.stages = {}

    def load(self, stage):
        return self.stages.get(stage)

    def save(self, stage, arrays) -> None:
        self.stages[stage] = arrays

    def mark(self, opening) -> None:
        raise AssertionError(opening)


GROUPS, SETS = [(1,), (0, 2)], [range(10, 50), range(20, 58)]


def held_columns():
    """Return a table of 48 records with ids, and what servers hold of two owners' columns of it."""
    table, layout = replace(encoded(), ids=np.arange(10, 58)), Layout(DOMAIN, "binary")
    made = columns_of(layout, table, GROUPS, SETS, [45, 50])
    return (
        table.rows(np.arange(10, 40)),
        layout,
        made,
        deal_uploads(layout, made.uploads, made.tables),
    )


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_columns_of_owners_become_rows_of_the_inner_join(name: str) -> None:
    common, layout, made, held = held_columns()
    engine = ENGINES[name]()
    declared = table_openings(made.uploads, engine.everyone)
    assert declared == openings([45, 50], engine.everyone)
    engine.leakage = Leakage(declared)
    found = held_table(engine, layout, Z16, held, n_slots=60)
    cells = np.hstack([reveal(found.onehot), reveal(found.columns)])
    labels = np.eye(2, dtype=int)[common.target]
    wanted = np.hstack([one_hot(layout, common), labels])
    assert found.n_rows == 60
    assert sorted(map(tuple, cells[cells.any(axis=1)].tolist())) == sorted(
        map(tuple, wanted.tolist())
    )


def test_an_attempt_that_goes_on_has_the_same_places() -> None:
    """Another shuffle would put records into trees whose splits were chosen without them."""
    _, layout, made, held = held_columns()
    keep, tables = Kept(), []
    for _ in range(3):
        engine = ClearEngine(Leakage(table_openings(made.uploads, "server")))
        table = held_table(engine, layout, Z16, held, n_slots=60, keep=keep)
        tables.append(reveal(table.onehot))
        if len(tables) == 2:
            assert all(row["opened"] == 0 for row in engine.leakage.compare())
            keep.stages.clear()
    np.testing.assert_array_equal(tables[0], tables[1])
    assert list(keep.stages) == [JOINED]
    assert not np.array_equal(tables[0], tables[2])


PARTS, SLOTS, RUNS = 25, 500, 160
EACH = 0.75
"""Epsilon of a version: one count with noise of each part, to which a record belongs alone."""


def releases(ids: list[int], run: int, source: NoiseSource) -> NDArray[np.int64]:
    """What a version releases: how many records with an odd id lie in each part, with noise."""
    held = [owned(ids, SLOTS, 2 * run + owner) for owner in range(2)]
    found = np.array(ids_in(reveal(joined(ClearEngine(Leakage([])), held, SLOTS)), 2)[0])
    ones = ((found >= 0) & (found % 2 == 1)).reshape(PARTS, -1).sum(axis=1)
    return TwoSidedGeometric(EACH)(ones, source)


def distances(first: list[int], second: list[int], seed: int) -> NDArray[np.int64]:
    """How far the releases of two versions lie apart, in many runs under one key of owners."""
    source = NoiseSource.insecure_seeded(seed)
    return np.array(
        [
            int(np.abs(releases(first, run, source) - releases(second, run, source)).sum())
            for run in range(RUNS)
        ]
    )


def test_a_record_more_in_a_second_version_moves_no_other() -> None:
    """One record more, before all others by its tag; the versions cost 2 * EACH together.

    Slots by rank under the key would be the same but for that record, which moves all others.
    """
    rest = range(400, 1000)
    tags = [tag.tobytes() for tag in id_tags(KEY, np.array(rest))]
    first, last = (rest[tags.index(one)] for one in (min(tags), max(tags)))
    before = [*range(375)]
    apart = [distances(before, [*before, more], seed) for seed, more in enumerate((last, first))]
    half = RUNS // 2
    bar = (np.median(apart[0][:half]) + np.median(apart[1][:half])) / 2
    near, far = (int((one[half:] <= bar).sum()) for one in apart)
    attacked = max(
        float(epsilon_lower(near, half, far, half)),
        float(epsilon_lower(half - far, half, half - near, half)),
    )
    assert attacked < 2 * EACH, f"attacked at {attacked:.2f} where {2 * EACH} is claimed"
