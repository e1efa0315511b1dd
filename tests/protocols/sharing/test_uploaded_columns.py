"""Owners of columns of the same records: whatever one of them shares, a record counts once."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.audit.bounds import epsilon_lower
from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.id3 import branch_sums
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.table import SecretTable, Upload, vertical_uploads
from hedgerow.protocols.sharing.uploaded import expand_table, n_planes, planes_of
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.ring import Z16, Z32
from hedgerow.secure.secret import Engine
from hedgerow.tables import Attribute, Domain, Encoded, Target
from tests.protocols.hidden.hidden_runs import answers_of
from tests.secure.engines import ENGINES, reveal

SIZES, CLASSES, N = (3, 1, 9, 2), 3, 500
CLASSED = Domain(
    attributes=tuple(
        Attribute(name=f"a{i}", kind="categorical", categories=tuple(range(size)))
        for i, size in enumerate(SIZES)
    ),
    target=Target(name="y", classes=tuple(range(CLASSES))),
)
NUMERIC = CLASSED.model_copy(update={"target": Target(name="y", bounds=(-3.0, 5.0))})
BARE = CLASSED.select(CLASSED.names, target=False)
NORTH, SOUTH = 3, 4
"""Owners; south has the target, or speaks for all where there is none."""


@pytest.mark.parametrize("domain", [CLASSED, NUMERIC, BARE], ids=["classes", "numbers", "bare"])
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_any_bits_of_all_owners_are_at_most_one_row(branching, domain: Domain) -> None:
    """Presence is the target's: a row has one bin of every attribute and a class, or nothing."""
    engine, numeric = ENGINES["three servers"](), domain is NUMERIC
    layout, rng = Layout(domain, branching), np.random.default_rng(0)
    groups = [(0, 2), (1, 3)]
    bits = {}
    for party, group, target in zip((NORTH, SOUTH), groups, (False, True), strict=True):
        planes = n_planes(domain.select(list(group), target=target))
        bits[party] = rng.integers(0, 2, (planes, N)) != 0
    shared = {party: engine.public_bits(of) for party, of in bits.items()}
    present = bits[SOUTH][0]
    assert (present & ~bits[NORTH][0]).sum() > 100
    assert (bits[NORTH][0] & ~present).sum() > 100
    uploads = vertical_uploads(layout, N, groups, 1)
    units = Units(-3.0, 5.0, 10) if numeric else None
    found = expand_table(engine, layout, Z32, uploads, shared, units)
    cells, columns = reveal(found.onehot), reveal(found.columns)
    for feature in range(len(SIZES)):
        block = cells[:, layout.columns_of([feature])]
        assert set(np.unique(block)) <= {0, 1}
        np.testing.assert_array_equal(block.sum(axis=1), present)
    if units is None:
        assert set(np.unique(columns)) == {0, 1}
        np.testing.assert_array_equal(columns.sum(axis=1), present)
    else:
        target = Z32.signed(columns[:, 1])
        np.testing.assert_array_equal(columns[:, 0], present)
        assert np.abs(target).max() <= units.most
        assert np.all(target[~present] == 0)


def test_slots_whose_target_comes_from_several_owners() -> None:
    """There would be no one upload that says which of the rows there are."""
    engine, layout = ENGINES["clear"](), Layout(CLASSED, "binary")
    uploads = [
        Upload(3, 0, 64, (0, 1), False),
        Upload(4, 0, 32, (2, 3), True),
        Upload(5, 32, 32, (2, 3), True),
    ]
    planes = {}
    for one in uploads:
        part = CLASSED.select(list(one.features), target=one.target)
        empty = np.zeros((n_planes(part), one.rows), dtype=bool)
        planes[one.party] = engine.public_bits(empty)
    with pytest.raises(HedgerowError) as caught:
        expand_table(engine, layout, Z16, uploads, planes)
    assert caught.value.code is Code.BAD_PARAMETER


SLOTS = 512
WARDS = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=("a", "b")) for name in ("x", "y", "z")
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=SLOTS,
)


def put_together(
    engine: Engine, layout: Layout, ring, rows: NDArray[np.int64], at: NDArray[np.int64]
) -> SecretTable:
    """Return the table of records (x, y, z, class), of which north denies those with a 0 behind."""
    slots = np.zeros((SLOTS, 5), dtype=np.uint8)
    slots[at[: len(rows)]] = rows
    present = np.zeros(SLOTS, dtype=bool)
    present[at[: len(rows)]] = True
    bins = np.asfortranarray(slots[:, :3])
    north = Encoded(WARDS.select([0, 1], target=False), bins[:, :2], None, slots[:, 4] == 1)
    south = Encoded(WARDS.select([2]), bins[:, 2:], slots[:, 3], present)
    planes = {p: engine.public_bits(planes_of(t)) for p, t in ((NORTH, north), (SOUTH, south))}
    uploads = vertical_uploads(layout, SLOTS, [(0, 1), (2,)], 1)
    return expand_table(engine, layout, ring, uploads, planes)


def test_a_record_that_an_owner_denies_is_in_one_leaf() -> None:
    """The class counts of leaves have sensitivity 1 in the L1 norm, whatever another owner says."""
    engine, layout = ENGINES["clear"](), Layout(WARDS, "binary")
    rows = np.array([(0, 0, k % 2, k % 2, 1) for k in range(40)])
    at = np.random.default_rng(3).permutation(SLOTS)
    by_z = (layout.candidates.feature == 2).astype(np.uint8).reshape(1, 1, -1)
    found = []
    for records in (rows, np.vstack([rows, [(0, 0, 0, 1, 0)]])):
        table = put_together(engine, layout, Z32, records, at)
        hist = Masks(table).histogram()
        counts = branch_sums(hist, engine.public(by_z, Z32), layout)
        found.append(Z32.signed(reveal(counts))[0])
    np.testing.assert_array_equal(found[0], [[20, 0], [0, 20]])
    np.testing.assert_array_equal(found[1] - found[0], [[0, 1], [0, 0]])


RUNS, EPSILON = 40, 1.0


def tie(denied: int) -> NDArray[np.int64]:
    """Return records that split on z first; below it x is a little better than y.

    Denied ones have z=0 and the class yes. With north's own presence they are missing in its bins,
    below z=1 as well: enough of them bring the counts there below zero, and another split wins.
    """
    groups = [(0, 0, 1, 0, 1, 20), (1, 0, 1, 0, 1, 5), (0, 0, 1, 1, 1, 2), (0, 0, 0, 1, 1, 150)]
    rows = [(*row, n) for *row, n in groups] + [(0, 0, 0, 1, 0, denied)]
    return np.repeat([row[:5] for row in rows], [row[5] for row in rows], axis=0)


def chosen(denied: int, run: int) -> str:
    """Train in the order of nodes, ask for all leaves, and return the split below z=1."""
    plan = plan_hidden(
        WARDS, epsilon=EPSILON, noise="splits+leaves", depth=2, criterion="gini", grower="grouped"
    )
    ledger = Ledger(domain=WARDS)
    openings = plan.openings() + HIDDEN_TREE.answer_openings(plan, 4, "distribution")
    source = NoiseSource.insecure_seeded(1000 * denied + run)
    engine = ClearEngine(Leakage(openings, ledger=ledger), source)
    at = np.random.default_rng(run).permutation(SLOTS)
    table = put_together(engine, plan.layout, plan.ring, tie(denied), at)
    model = train_hidden(table, plan, ledger)
    asked = np.array([[x, y, 1] for x in (0, 1) for y in (0, 1)], dtype=np.uint8)
    queries = Encoded(WARDS, np.asfortranarray(asked), np.zeros(4, np.uint8), np.ones(4, bool))
    counts = answers_of(model, plan, queries, "distribution", ledger)
    # Rows of one leaf have the same noisy counts.
    same_x, same_y = (counts[:2] == counts[2:]).all(), (counts[::2] == counts[1::2]).all()
    return {(True, False): "y", (False, True): "x"}.get((bool(same_x), bool(same_y)), "neither")


def test_no_owner_can_make_the_splits_show_a_record() -> None:
    """One record more or less of those that north denies; all runs are seeded."""
    without, with_it = (Counter(chosen(denied, run) for run in range(RUNS)) for denied in (23, 24))
    attacked = max(
        float(epsilon_lower(one[split], RUNS, other[split], RUNS))
        for one, other in ((without, with_it), (with_it, without))
        for split in ("x", "y", "neither")
    )
    assert attacked < EPSILON, f"attacked at {attacked:.2f}: {without}, {with_it}"
