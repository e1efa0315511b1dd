"""Owners' tables before they are shared."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.integrate import (
    by_columns,
    by_rows,
    dealt,
    equal_slots,
    keyed,
)
from hedgerow.tables import Encoded, encode
from tests.protocols.hidden.hidden_jobs import DOMAIN, encoded, plan, rows

PLAN = plan()
KEY = bytes(range(16))


def refused(function, *args) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args)
    return caught.value.code


def records(tables) -> list[tuple]:
    """Return the present rows of whole tables, with their targets, sorted."""
    return sorted(
        (*bins, int(y))
        for table in tables
        for bins, y in zip(
            table.bins[table.present].tolist(), table.target[table.present], strict=True
        )
    )


def parts_by_columns(n: int = 48, orders: tuple[int, int] = (1, 2)):
    """Cut a table between two owners, each with the rows in an order of its own."""
    X, y = rows(n)
    ids = np.arange(100, 100 + n)
    left, right = (np.random.default_rng(seed).permutation(n) for seed in orders)
    return [
        encode(X[left][:, :2], DOMAIN.select([0, 1]), y[left], ids=ids[left]),
        encode(X[right][:, 2:], DOMAIN.select([2], target=False), ids=ids[right]),
    ]


def test_slots_are_cut_into_nearly_equal_blocks() -> None:
    assert equal_slots(60, 7) == [8, 9, 8, 9, 8, 9, 9]
    assert sum(equal_slots(5, 3)) == 5


@pytest.mark.parametrize("owners", [1, 2, 7])
def test_dealing_rows_keeps_every_record_once(owners: int) -> None:
    table = encoded()
    made = dealt(PLAN.layout, table, 60, owners)
    assert [upload.rows for upload in made.uploads] == equal_slots(60, owners)
    assert [upload.party for upload in made.uploads] == list(range(3, 3 + owners))
    assert records(made.tables.values()) == records([table])


@pytest.mark.parametrize("owners", [1, 2, 3])
def test_dealing_columns_keeps_every_cell_once(owners: int) -> None:
    table = encoded()
    made = dealt(PLAN.layout, table, 60, owners, "vertical")
    assert sorted(f for upload in made.uploads for f in upload.features) == [0, 1, 2]
    assert [upload.target for upload in made.uploads] == [True] + [False] * (owners - 1)
    assert all(upload.tagged and upload.rows == 60 for upload in made.uploads)
    assert records([side_by_side(made)]) == records([table])


def test_more_owners_than_columns_or_slots_are_refused() -> None:
    assert refused(dealt, PLAN.layout, encoded(), 60, 4, "vertical") is Code.BAD_PARAMETER
    assert refused(dealt, PLAN.layout, encoded(), 60, 61) is Code.BAD_PARAMETER
    assert refused(dealt, PLAN.layout, encoded(), 47) is Code.CAPACITY_EXCEEDED


def test_owners_of_rows_fill_slots_of_their_own() -> None:
    parts = [encoded(10, 1), encoded(38, 2)]
    made = by_rows(PLAN.layout, parts, [15, 45])
    assert [table.n_slots for table in made.tables.values()] == [15, 45]
    assert records(made.tables.values()) == records(parts)
    assert refused(by_rows, PLAN.layout, parts, [9, 51]) is Code.CAPACITY_EXCEEDED
    assert refused(by_rows, PLAN.layout, parts, [60]) is Code.BAD_PARAMETER
    other = DOMAIN.model_copy(update={"attributes": DOMAIN.attributes[::-1]})
    X, y = rows(10)
    stranger = encode(X[:, ::-1], other, y)
    assert refused(by_rows, PLAN.layout, [parts[0], stranger], [15, 45]) is Code.BAD_DOMAIN
    assert refused(by_rows, PLAN.layout, [encode(X, DOMAIN)], [60]) is Code.BAD_TARGET


def side_by_side(made) -> Encoded:
    """Join in the clear: by tags, the records that all owners have."""
    tables = [made.tables[upload.party] for upload in made.uploads]
    tags = [[tag.tobytes() for tag in table.tags[table.present]] for table in tables]
    assert all(one == sorted(one) for one in tags)
    common = sorted(set.intersection(*map(set, tags)))
    whole = np.zeros((len(common), 3), dtype=np.uint8, order="F")
    for upload, table, own in zip(made.uploads, tables, tags, strict=True):
        at = np.searchsorted(own, common)
        whole[:, list(upload.features)] = table.bins[table.present][at]
        if table.target is not None:
            target = table.target[table.present][at]
    return Encoded(DOMAIN, whole, target, np.ones(len(common), dtype=bool))


def test_owners_of_columns_have_slots_of_their_own_and_tags_in_common() -> None:
    left, right = parts_by_columns()
    made = by_columns(PLAN.layout, [left, right], [60, 50])
    assert [table.n_slots for table in made.tables.values()] == [60, 50]
    assert records([side_by_side(made)]) == records([encoded()])
    fewer = by_columns(PLAN.layout, [left, right.rows(np.arange(40))], [60, 50])
    assert side_by_side(fewer).n_slots == 40
    assert all(table.ids is None for table in made.tables.values())


def test_owners_without_a_target() -> None:
    bare = DOMAIN.select(DOMAIN.names, target=False)
    layout, (X, _) = Layout(bare, "binary"), rows(48)
    made = by_rows(layout, [encode(X[:10], bare), encode(X[10:], bare)], [15, 45])
    assert [int(table.present.sum()) for table in made.tables.values()] == [10, 38]
    assert [upload.target for upload in made.uploads] == [True, True]
    left, right = (part.select(part.domain.names, target=False) for part in parts_by_columns())
    uploads = by_columns(layout, [left, right], [60, 60]).uploads
    assert [one.target for one in uploads] == [True, False]


def test_the_key_decides_about_tags() -> None:
    """Where records lie among the slots follows from them, and from random tags of empty slots."""
    first, again, other = (
        by_columns(PLAN.layout, parts_by_columns(orders=(3, at)), [60, 60], key).tables[3]
        for at, key in enumerate([KEY, KEY, bytes(16)])
    )
    np.testing.assert_array_equal(first.tags[first.present], again.tags[again.present])
    assert not np.isin(first.tags[first.present], other.tags[other.present]).all()
    assert not np.array_equal(first.tags, again.tags)
    assert len(np.unique(first.tags, axis=0)) == 60


def test_slots_of_records_are_uniform(chi_square) -> None:
    part, _ = parts_by_columns(6)
    places = sum(
        by_columns(Layout(part.domain, "binary"), [part], [9], k.to_bytes(16))
        .tables[3]
        .present.astype(int)
        for k in range(600)
    )
    assert chi_square(places, np.full(9, 1 / 9)) > 1e-4


def test_columns_that_do_not_make_a_table_are_refused() -> None:
    left, right = parts_by_columns()
    refuse = lambda *parts, slots=60: refused(  # noqa: E731
        by_columns, PLAN.layout, parts, [slots] * len(parts)
    )
    twice = replace(right, ids=np.append(right.ids[:-1], right.ids[0]))
    assert refuse(left, twice) is Code.DUPLICATE_ID
    assert refuse(left, replace(right, ids=None)) is Code.IDS_DO_NOT_ALIGN
    assert refuse(left) is Code.MISSING_COLUMN
    assert refuse(left, right, right) is Code.DUPLICATE_COLUMN
    assert refuse(replace(left, target=None), right) is Code.BAD_TARGET
    assert refuse(left, right, slots=47) is Code.CAPACITY_EXCEEDED
    attribute = DOMAIN.attributes[2].model_copy(update={"categories": (1, 0)})
    domain = right.domain.model_copy(update={"attributes": (attribute,)})
    assert refuse(left, replace(right, domain=domain)) is Code.BAD_DOMAIN


def test_owners_of_columns_hold_their_own_alone() -> None:
    made = dealt(PLAN.layout, encoded(), 60, 2, "vertical")
    assert set(made.tables) == {3, 4}
    assert made.tables[3].target is not None
    assert made.tables[4].target is None
    assert made.tables[4].bins.shape == (60, 1)


def test_keyed_bytes_go_on() -> None:
    first, second = keyed(KEY), keyed(KEY)
    assert (first(8), first(8)) == (second(8), second(8))
    assert keyed(KEY)(8) != keyed(bytes(16))(8)
