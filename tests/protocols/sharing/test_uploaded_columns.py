"""Owners of columns: whatever one of them shares, a record counts once or not at all."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.audit.bounds import epsilon_lower
from hedgerow.crypto.prg import KEY_BYTES
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.masks import Masks
from hedgerow.protocols.growers.units import Units
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.id3 import branch_sums
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.training import train_hidden
from hedgerow.protocols.sharing.integrate import by_columns, keyed
from hedgerow.protocols.sharing.join import TAG_PLANES
from hedgerow.protocols.sharing.table import SecretTable, vertical_uploads
from hedgerow.protocols.sharing.uploaded import (
    HeldUpload,
    deal_uploads,
    held_table,
    planes_shape_of,
    table_openings,
)
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.ring import Z32
from hedgerow.secure.secret import Engine, pack
from hedgerow.tables import Attribute, Domain, Encoded, Target
from hedgerow.tables.ids import id_tags
from tests.protocols.hidden.hidden_runs import answers_of
from tests.protocols.sharing.shared_tables import columns_at
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
"""Owners; south has the target."""


@pytest.mark.parametrize("domain", [CLASSED, NUMERIC, BARE], ids=["classes", "numbers", "bare"])
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_any_bits_of_all_owners_are_at_most_one_row(branching, domain: Domain) -> None:
    """A row that all owners have has one bin of every attribute and a class, or there is none."""
    engine, numeric = ENGINES["three servers"](), domain is NUMERIC
    layout, rng = Layout(domain, branching), np.random.default_rng(0)
    groups = [(0, 2), (1, 3)]
    uploads = vertical_uploads([N, N], groups, 1)
    tags = np.sort(rng.choice(1 << 40, N, replace=False))
    held, present = [], np.ones(N, dtype=bool)
    for upload in uploads:
        planes, _ = shape = planes_shape_of(layout, upload)
        bits = rng.integers(0, 2, (planes, N)) != 0
        # All that is asked of an owner is that its tags ascend.
        bits[-TAG_PLANES:] = (tags << 15 >> np.arange(TAG_PLANES - 1, -1, -1)[:, None] % 64) & 1
        bits[-TAG_PLANES:][64:] = False
        present &= bits[0]
        held.append(HeldUpload(upload, shape, dict(enumerate(deal(pack(bits), xor=True)))))
    engine.leakage = Leakage(table_openings(uploads, engine.everyone))
    units = Units(-3.0, 5.0, 10) if numeric else None
    found = held_table(engine, layout, Z32, held, units)
    cells, columns = reveal(found.onehot), reveal(found.columns)
    there = columns[:, 0] if numeric else columns.sum(axis=1)
    assert there.sum() == present.sum() > 100
    assert set(np.unique(there)) == {0, 1}
    for feature in range(len(SIZES)):
        block = cells[:, columns_at(layout, [feature])]
        assert set(np.unique(block)) <= {0, 1}
        np.testing.assert_array_equal(block.sum(axis=1), there)
    if units is not None:
        target = Z32.signed(columns[:, 1])
        assert np.abs(target).max() <= units.most
        assert np.all(target[there == 0] == 0)


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
    bins, ids = np.asfortranarray(slots[:, :3]), np.arange(SLOTS)
    north = Encoded(WARDS.select([0, 1], target=False), bins[:, :2], None, present, ids)
    south = Encoded(WARDS.select([2]), bins[:, 2:], slots[:, 3], present, ids)
    made = by_columns(layout, [north, south], [SLOTS, SLOTS], bytes(32), keyed(bytes(KEY_BYTES)))
    denied = present & (slots[:, 4] == 0)
    tags = {tag.tobytes() for tag in id_tags(bytes(32), ids[denied])}
    north = made.tables[NORTH]
    keep = np.array([tag.tobytes() not in tags for tag in north.tags])
    made.tables[NORTH] = replace(north, present=north.present & keep)
    held = deal_uploads(layout, made.uploads, made.tables)
    before = engine.leakage
    engine.leakage = Leakage(table_openings(made.uploads, engine.everyone))
    table = held_table(engine, layout, ring, held)
    engine.leakage = before
    return table


def test_a_record_that_an_owner_denies_is_in_no_leaf() -> None:
    """The class counts of leaves have sensitivity 1 in the L1 norm, whatever another owner says.

    It is in none of the cells, then: were it in those of one owner, it would count in two leaves.
    """
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
    np.testing.assert_array_equal(found[1], found[0])


RUNS, EPSILON = 40, 1.0


def tie(denied: int) -> NDArray[np.int64]:
    """Return records that split on z first; below it x is a little better than y.

    Denied ones have z=0 and the class yes. Were they missing in north's bins alone, enough of them
    would bring the counts below z=1 below zero, and another split would win.
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
