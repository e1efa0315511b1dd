from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import GRID_BITS, Units
from hedgerow.protocols.sharing import uploaded as module
from hedgerow.protocols.sharing.integrate import tagged
from hedgerow.protocols.sharing.table import (
    SecretTable,
    Upload,
    check_uploads,
    horizontal_uploads,
    vertical_uploads,
)
from hedgerow.protocols.sharing.uploaded import deal_uploads, n_planes, planes_of
from hedgerow.secure.ring import Z16, Z32
from hedgerow.secure.secret import Engine
from hedgerow.tables import Domain, Encoded, Target
from tests.protocols.hidden.hidden_runs import ENGINES, domain, look, make_engine, make_slots
from tests.protocols.sharing.shared_tables import one_hot, shared_table

N = 40
EVERY = (0, 1, 2, 3, 4)
BRANCHINGS = ("binary", "wary")


def rows_of(slots: Encoded, first: int, rows: int) -> Encoded:
    return slots.rows(np.arange(first, first + rows))


def held_by(slots: Encoded, upload: Upload) -> Encoded:
    part = rows_of(slots, upload.first, upload.rows)
    return part.select(upload.features, target=upload.target)


def share(engine: Engine, slots: Encoded, layout: Layout, uploads: Sequence[Upload]) -> SecretTable:
    tables = {upload.party: held_by(slots, upload) for upload in uploads}
    return shared_table(engine, layout, Z16, uploads, tables)


def expected(slots: Encoded, layout: Layout) -> tuple[NDArray[Any], NDArray[Any]]:
    classes = (slots.target[:, None] == np.arange(3)) * slots.present[:, None]
    return one_hot(layout, slots), classes.astype(np.int64)


def check(found: SecretTable, slots: Encoded, layout: Layout) -> None:
    onehot, columns = expected(slots, layout)
    np.testing.assert_array_equal(look(found.onehot), onehot)
    np.testing.assert_array_equal(look(found.columns), columns)
    absent = ~slots.present
    assert absent.any()
    assert look(found.onehot)[absent].sum() == look(found.columns)[absent].sum() == 0
    assert look(found.columns).sum() == slots.present.sum()
    assert found.n_rows == slots.n_slots
    assert found.ring == Z16


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("branching", BRANCHINGS)
@pytest.mark.parametrize("capacities", [[40], [13, 27], [1, 9, 10, 17, 3]])
def test_rows_of_several_owners_lie_below_each_other(
    name: str, branching: Any, capacities: list[int]
) -> None:
    slots, layout = make_slots(domain(), 0, N), Layout(domain(), branching)
    uploads = horizontal_uploads(layout, capacities)
    assert [u.party for u in uploads] == list(range(3, 3 + len(capacities)))
    assert sum(u.rows for u in uploads) == N
    check(share(make_engine(name), slots, layout, uploads), slots, layout)


@pytest.mark.parametrize(
    ("groups", "target_at"),
    [([EVERY], 0), ([(0, 1, 2), (3, 4)], 0), ([(3, 0), (4,), (2, 1)], 2)],
)
def test_columns_of_several_owners_are_all_columns(
    groups: list[tuple[int, ...]], target_at: int
) -> None:
    uploads = vertical_uploads([N + i for i in range(len(groups))], groups, target_at)
    assert [u.features for u in uploads] == [tuple(sorted(group)) for group in groups]
    assert [u.target for u in uploads] == [i == target_at for i in range(len(groups))]
    assert check_uploads(Layout(domain(), "binary"), uploads) == N


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("block", [1, 50, 500])
def test_blocks_give_the_same_table(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    # More than two words of rows, which no block is smaller than.
    slots, layout = make_slots(domain(), 3, 150), Layout(domain(), "binary")
    uploads = horizontal_uploads(layout, [90, 60])
    check(share(make_engine(name), slots, layout, uploads), slots, layout)


@pytest.mark.parametrize("name", ENGINES)
def test_numbers_become_presence_and_whole_units(name: str) -> None:
    public = Domain(attributes=domain().attributes, target=Target(bounds=(-50, 50)))
    slots = make_slots(domain(), 4, N)
    y = np.random.default_rng(0).uniform(-50, 50, N)
    held = Encoded(public, slots.bins, y, slots.present)
    layout, units = Layout(public, "binary"), Units(-50, 50, 10)
    uploads = horizontal_uploads(layout, [N])
    found = shared_table(make_engine(name), layout, Z32, uploads, {3: held}, units)
    counted = np.rint(np.rint(y / 50 * 2**GRID_BITS) / 2 ** (GRID_BITS - 10))
    columns = np.stack([slots.present, np.where(slots.present, counted, 0)], axis=1)
    np.testing.assert_array_equal(look(found.columns), columns)


def refusal(uploads: Sequence[Upload], tables: dict[int, Encoded]) -> str:
    """Return the refusal, of which nobody else has heard."""
    drawn: list[int] = []

    def entropy(n: int) -> bytes:
        drawn.append(n)
        return bytes(n)

    with pytest.raises(HedgerowError) as caught:
        deal_uploads(Layout(domain(), "binary"), uploads, tables, entropy)
    assert drawn == []
    return str(caught.value)


def test_a_table_that_is_not_what_was_declared_is_refused_before_anything_is_dealt() -> None:
    slots = make_slots(domain(), 5, N)
    uploads = horizontal_uploads(Layout(domain(), "binary"), [25, 15])
    first, second = rows_of(slots, 0, 25), rows_of(slots, 25, 15)
    assert "H108" in refusal(uploads, {3: second, 4: first})
    # The first owner's table would be in order.
    assert "H108" in refusal(uploads, {3: first, 4: rows_of(slots, 25, 14)})
    bare = Encoded(second.domain, second.bins, None, second.present)
    assert "no target" in refusal(uploads, {3: first, 4: bare})
    other = [domain().attributes[0].model_copy(update={"bounds": (0, 4)}), *domain().attributes[1:]]
    moved = Encoded(domain(attributes=other), second.bins, second.target, second.present)
    assert "H117" in refusal(uploads, {3: first, 4: moved})
    renamed = Domain(attributes=domain().attributes, target=Target(name="y", classes=(2, 1, 0)))
    swapped = Encoded(renamed, second.bins, second.target, second.present)
    assert "H117" in refusal(uploads, {3: first, 4: swapped})
    assert "H117" in refusal(uploads, {3: first, 4: second.select((0, 1, 2, 4, 3))})


@pytest.mark.parametrize(
    "uploads",
    [
        [],
        [Upload(3, 0, 25, EVERY, True)] * 2,
        [Upload(3, 0, 25, EVERY, True), Upload(4, 24, 15, EVERY, True)],
        [Upload(3, 0, 25, EVERY, True), Upload(4, 26, 14, EVERY, True)],
        [Upload(3, 0, 40, (0, 1, 2, 3), True)],
        [Upload(3, 0, 40, EVERY, False)],
        [Upload(3, 0, 40, (0, 1, 2), True), Upload(4, 0, 40, (3, 4), True)],
        [Upload(3, 0, 40, (0, 1, 2), True), Upload(4, 0, 40, (2, 3, 4), False)],
        # As many cells as there should be, some filled twice and some never.
        [
            Upload(3, 0, 20, EVERY, True),
            Upload(4, 0, 20, (0, 1), True),
            Upload(5, 20, 20, (2, 3, 4), False),
        ],
        [Upload(3, 0, 40, (0, 0, 1, 2, 3, 4), True)],
        [Upload(3, 0, 40, EVERY, False), Upload(4, 0, 40, (), True)],
        [Upload(3, 0, 25, EVERY, True), Upload(4, 25, 0, EVERY, True)],
        # Columns of which one is missing, or at two owners, or not to be joined.
        vertical_uploads([40, 40], [(0, 1), (2, 3)], 0),
        vertical_uploads([40, 40], [(0, 1, 2), (2, 3, 4)], 0),
        vertical_uploads([40, 40], [EVERY, ()], 0),
        vertical_uploads([40, 0], [(0, 1, 2), (3, 4)], 0),
        vertical_uploads([40, 40], [(0, 1, 2), (3, 4)], 2),
        [*vertical_uploads([40], [(0, 1, 2)], 0), Upload(4, 0, 40, (3, 4), False)],
    ],
)
def test_cells_that_are_missing_or_filled_twice_are_refused(uploads: list[Upload]) -> None:
    assert "H501" in refusal(uploads, {})


def test_tags_are_there_where_they_were_declared() -> None:
    slots = make_slots(domain(), 5, N)
    named = Encoded(slots.domain, slots.bins, slots.target, slots.present, np.arange(N))
    with_tags = tagged(named, N, bytes(32))
    joined = vertical_uploads([N], [EVERY], 0)
    assert "no tags" in refusal(joined, {3: slots})
    assert "tags from party 3" in refusal(
        horizontal_uploads(Layout(domain(), "binary"), [N]), {3: with_tags}
    )
    (one,) = deal_uploads(Layout(domain(), "binary"), joined, {3: with_tags})
    assert one.shape == (n_planes(domain(), tagged=True), N) == planes_of(with_tags).shape


def test_an_owner_without_a_table_is_refused() -> None:
    assert "H108" in refusal(horizontal_uploads(Layout(domain(), "binary"), [N]), {})
