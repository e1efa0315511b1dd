"""Tables that owners share as bits, before anybody knows what will be trained on them.

An owner shares the bits of bin numbers, class numbers and presence: a few bits per cell instead of
a number per bin. The servers make one-hot columns of them when a job asks for it, in the layout and
ring of that job. Any bits are some row (a number beyond the bins counts as the last of them), so no
upload can hold a record that counts twice or not at all.

Where owners hold columns, that also goes for all uploads together: a record of the joined table
(`sharing.join`) is there with the cells of all owners or not at all. Tags are shared as further
bits.

A numeric target is a step of the public grid (`growers.units`), from 0 to 2^21, in 22
bits. The highest stands for the upper bound alone: where it is set the servers take the others for
0. So any bits are a target within the bounds, and no record can weigh more than the ledger assumes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import Opening
from hedgerow.protocols.checkpoint import Checkpoints, NoCheckpoints
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.growers.units import GRID_BITS, Units, grid_steps
from hedgerow.protocols.sharing.join import TAG_PLANES, join, openings
from hedgerow.protocols.sharing.queries import one_hot_bits
from hedgerow.protocols.sharing.table import (
    SecretTable,
    TaggedTable,
    Upload,
    check_table,
    check_uploads,
    is_joined,
    summed_columns,
)
from hedgerow.secure.replicated.outside import Dealt, bits_of_parts, deal
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import (
    WORD,
    Engine,
    Secret,
    SecretBits,
    concatenate,
    pack,
    stack,
    turned,
)
from hedgerow.tables import Domain, Encoded

_BLOCK = 1 << 24
"""Elements that are made of bits at once."""
GRID_PLANES = GRID_BITS + 2
"""Bits of a numeric target."""
JOINED = "joined table"
"""Stage in which it is kept."""


def n_planes(domain: Domain, *, tagged: bool = False) -> int:
    """Return how many bits a slot takes: its presence, the numbers of a domain, a tag if any."""
    return 1 + sum(_widths(domain)) + TAG_PLANES * tagged


def planes_of(table: Encoded) -> NDArray[np.bool_]:
    """Return the bits of a table, bool (planes, slots).

    Presence, attributes, class or grid step, and the tag where there is one. Numbers stand highest
    bit first; empty slots are all zero but for their tag.
    """
    numbers = [table.bins[:, feature] for feature in range(table.n_features)]
    if table.target is not None:
        numbers.append(_target_numbers(table))
    planes = [table.present]
    widths = _widths(table.domain)
    for number, width in zip(numbers, widths, strict=True):
        kept = np.where(table.present, number, 0).astype(np.int64)
        planes += [(kept >> bit) & 1 != 0 for bit in reversed(range(width))]
    if isinstance(table, TaggedTable):
        planes += list(np.unpackbits(table.tags, axis=1).T != 0)
    return np.stack(planes)


@dataclass(frozen=True, eq=False)
class HeldUpload:
    """What the servers that live here hold of an upload.

    `parts` are theirs of packed planes of `shape`, dealt outside of the network; None of slots that
    nobody fills. `order` says where planes stand in what was dealt if not as `planes_of` has them.
    """

    upload: Upload
    shape: tuple[int, int]
    parts: Mapping[int, Dealt] | None = field(repr=False)
    order: NDArray[np.int64] | None = field(default=None, repr=False)

    def planes(self, engine: Engine) -> SecretBits:
        """Return the planes as secret bits; no message. H108 where a part is not there."""
        if self.parts is None:
            return engine.public_bits(np.zeros(self.shape, dtype=np.bool_))
        bits = bits_of_parts(engine, self.parts, self.shape)
        return bits if self.order is None else bits[self.order]


def planes_shape_of(layout: Layout, upload: Upload) -> tuple[int, int]:
    """Return the shape of the planes of an upload, (planes, slots)."""
    return n_planes(_domain_of(layout, upload), tagged=upload.tagged), upload.rows


def deal_uploads(
    layout: Layout,
    uploads: Sequence[Upload],
    tables: Mapping[int, Encoded],
    entropy: Callable[[int], bytes] = os.urandom,
) -> list[HeldUpload]:
    """Deal the tables of all owners, by party, to the three servers: steps 1 to 8 of algorithm 11.

    Before anything is dealt: H501 if cells are missing or filled twice, H108 if a table is not
    there or not what its upload says, H117 if it is of another domain. Only tests and seeded runs
    pass other `entropy` than the operating system's.
    """
    check_uploads(layout, uploads)
    for upload in uploads:
        if upload.party not in tables:
            raise Code.WRONG_SHAPE.error(
                expected=f"the table of party {upload.party}", found="none"
            )
        check_table(layout, upload, tables[upload.party])
    held = []
    for upload in uploads:
        parts = deal(pack(planes_of(tables[upload.party])), xor=True, entropy=entropy)
        shape = planes_shape_of(layout, upload)
        held.append(HeldUpload(upload, shape, dict(enumerate(parts))))
    return held


def held_table(
    engine: Engine,
    layout: Layout,
    ring: Ring,
    held: Sequence[HeldUpload],
    units: Units | None = None,
    n_slots: int | None = None,
    keep: Checkpoints | None = None,
) -> SecretTable:
    """Make a table of what servers hold of uploads: `join` where they are of columns, and expand.

    `n_slots` of a joined table are by default those of the owner with the fewest. The table is kept
    as a stage: other places for its records would mix with what was made of these.

    Reveals: `table_openings`. Cost: that of `join` and of `expand_table`.
    """
    uploads = [one.upload for one in held]
    planes = {one.upload.party: one.planes(engine) for one in held}
    if is_joined(uploads):
        least = check_uploads(layout, uploads)
        whole = Upload(uploads[0].party, 0, n_slots or least, tuple(range(layout.n_features)), True)
        planes = {whole.party: _joined(engine, layout, uploads, planes, whole.rows, keep)}
        uploads = [whole]
    return expand_table(engine, layout, ring, uploads, planes, units)


def table_openings(uploads: Sequence[Upload], to: str) -> list[Opening]:
    """Declare what is opened before training, to put a table together: for a join, and no other."""
    return openings([upload.rows for upload in uploads], to) if is_joined(uploads) else []


def _joined(
    engine: Engine,
    layout: Layout,
    uploads: Sequence[Upload],
    planes: Mapping[int, SecretBits],
    n_slots: int,
    keep: Checkpoints | None,
) -> SecretBits:
    """Return the planes of a joined table as `planes_of` orders them, made once."""
    keep = keep or NoCheckpoints()
    known = keep.load(JOINED)
    if known is not None:
        return SecretBits(engine, n_slots, known["planes"])
    for upload in uploads:
        _check_planes(layout, upload, planes[upload.party])
    each = [planes[upload.party] for upload in uploads]
    made = join([one[-TAG_PLANES:] for one in each], [one[:-TAG_PLANES] for one in each], n_slots)
    widths = np.array(_widths(layout.domain))
    # Columns by number, the target behind all others, in the order in which owners have them.
    target = [layout.n_features] * (len(widths) > layout.n_features)
    columns = [i for one in uploads for i in [*one.features, *target * one.target]]
    ends = 1 + np.cumsum(widths[columns])
    places = [np.arange(ends[at] - widths[i], ends[at]) for at, i in enumerate(columns)]
    made = made[np.concatenate([[0], *(places[at] for at in np.argsort(columns))])]
    keep.save(JOINED, {"planes": made.data})
    return made


def expand_table(
    engine: Engine,
    layout: Layout,
    ring: Ring,
    uploads: Sequence[Upload],
    planes: Mapping[int, SecretBits],
    units: Units | None = None,
) -> SecretTable:
    """Make one-hot columns of shared bits and put the uploads together (algorithm 11).

    Paper: hiddentrees.

    1. Numbers become one-hot bits, all attributes at once (`one_hot_bits`); the presence of a row
       is conjoined.
    2. Bits become numbers of the ring, in blocks of rows.
    3. A numeric target is the sum of its bits, each times what it stands for in units: those below
       a unit count for nothing but the highest of them, which rounds half a unit up. Local.
    4. Rows below rows.

    Planes are (planes, slots) by party, as `planes_of` orders them, of uploads of rows. H108 for
    planes of another shape than their upload's, H501 if cells are missing or filled twice.

    Reveals: nothing. Cost: per upload the largest width of an attribute in rounds of ANDs, 2 more
    for numbers, and 2 rounds per block.
    """
    n, n_columns = check_uploads(layout, uploads), summed_columns(layout.domain)
    for upload in uploads:
        _check_planes(layout, upload, planes[upload.party])
    onehot = columns = None
    for upload in uploads:
        cells, target = _indicators(layout, planes[upload.party], n_columns, units)
        for at, block in _blocks(cells, upload.rows):
            rows = slice(upload.first + at.start, upload.first + at.stop)
            onehot = _placed(onehot, (n, layout.n_columns), rows, _numbers(block, ring))
        for at, block in _blocks(target, upload.rows):
            rows = slice(upload.first + at.start, upload.first + at.stop)
            columns = _placed(columns, (n, n_columns), rows, _summed(block, ring, units))
    assert onehot is not None
    assert columns is not None
    return SecretTable(layout, Secret(engine, ring, onehot), Secret(engine, ring, columns))


def _placed(
    out: NDArray[Any] | None,
    shape: tuple[int, int],
    rows: slice,
    data: NDArray[Any],
) -> NDArray[Any]:
    """Put shares of some rows where they belong; those of all are what they are."""
    if data.shape[-2:] == shape:
        return data
    if out is None:
        out = np.zeros((*data.shape[:-2], *shape), data.dtype)
    out[..., rows, :] = data
    return out


def _check_planes(layout: Layout, upload: Upload, bits: SecretBits) -> None:
    shape = planes_shape_of(layout, upload)
    if bits.shape != shape:
        raise Code.WRONG_SHAPE.error(
            expected=f"{shape[0]} planes of {shape[1]:,} slots from {upload.party}",
            found=f"{bits.shape}",
        )


def _indicators(
    layout: Layout, bits: SecretBits, n_columns: int, units: Units | None
) -> tuple[SecretBits, SecretBits]:
    """Return the columns (columns, slots) of whole rows, and the bits that their target sums up."""
    domain, present = layout.domain, bits[:1]
    widths = _widths(domain)
    classes = domain.target is not None and units is None
    if domain.target is not None and units is not None:
        widths.pop()
    most = max(widths)
    numbers = _padded(bits, widths, most)
    zero = bits.engine.public_bits(np.zeros((1, bits.n), dtype=np.bool_))
    sizes = [*domain.n_bins, *([n_columns] if classes else [])]
    hot, size = concatenate([one_hot_bits(numbers, sizes), zero]), 1 << most
    m = layout.n_features
    columns = layout.widths(range(m))
    owner = np.repeat(np.arange(m), columns)
    bin_ = np.arange(int(columns.sum())) - np.repeat(np.cumsum(columns) - columns, columns)
    # A padding column of a w-ary table may lie beyond what bits can say.
    places = np.where(bin_ < size, owner * size + bin_, len(hot) - 1)
    cells = hot[places] & present
    if domain.target is None:
        return cells, present
    if units is not None:
        return cells, _bounded(bits[-GRID_PLANES:], present)
    return cells, hot[m * size + np.arange(n_columns)] & present


def _bounded(steps: SecretBits, present: SecretBits) -> SecretBits:
    """Return presence and the bits of a step that is no more than the upper bound.

    With t the highest bit, p the presence and l the others: t p, and l p (1 - t). Two rounds.
    """
    top = steps[:1] & present
    return concatenate([present, top, steps[1:] & (present ^ top)])


def _summed(block: SecretBits, ring: Ring, units: Units | None) -> NDArray[Any]:
    """Return what is added up of rows, (rows, columns): classes, or presence and target."""
    if units is None:
        return _numbers(block, ring)
    finer = GRID_BITS - units.bits
    # What a bit stands for, highest first: units, and the half that is rounded up.
    worth = [1 << place >> finer for place in reversed(range(GRID_PLANES))]
    if finer:
        worth[-finer] = 1
    used = 1 + np.flatnonzero(worth)
    found = block.engine.b2a(turned(block[np.concatenate([[0], used])]), ring)
    present, target = found[:, 0], (found[:, 1:] * np.array([w for w in worth if w])).sum(axis=1)
    return stack([present, target - present * units.most], axis=1).data


def _padded(bits: SecretBits, widths: Sequence[int], most: int) -> SecretBits:
    """Return numbers of equal width as planes (most, numbers, slots), highest bit first."""
    zero = bits.engine.public_bits(np.zeros((1, bits.n), dtype=np.bool_))
    every = concatenate([bits, zero])
    ends = 1 + np.cumsum(widths)
    index = np.full((most, len(widths)), len(bits))
    for k, (end, width) in enumerate(zip(ends, widths, strict=True)):
        index[most - width :, k] = np.arange(end - width, end)
    lead = bits.engine.share_axes
    data = np.take(every.data, index, axis=lead)
    return bits.like(data)


def _blocks(bits: SecretBits, rows: int) -> Any:
    """Cut bits (columns, slots) into blocks of whole words."""
    step = max(WORD, _BLOCK // max(1, len(bits)) // WORD * WORD)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        words = slice(start // WORD, -(-stop // WORD))
        data = np.ascontiguousarray(bits.data[..., words])
        yield slice(start, stop), SecretBits(bits.engine, stop - start, data)


def _numbers(block: SecretBits, ring: Ring) -> NDArray[Any]:
    return block.engine.b2a(turned(block), ring).data


def _domain_of(layout: Layout, upload: Upload) -> Domain:
    return layout.domain.select(list(upload.features), target=upload.target)


def _widths(domain: Domain) -> list[int]:
    """Return the bits of every number of a record."""
    widths = [max(1, (int(bins) - 1).bit_length()) for bins in domain.n_bins]
    if domain.target is None:
        return widths
    classes = domain.target.n_classes
    return [*widths, GRID_PLANES if classes is None else max(1, (classes - 1).bit_length())]


def _target_numbers(table: Encoded) -> NDArray[Any]:
    assert table.target is not None
    assert table.domain.target is not None
    bounds = table.domain.target.bounds
    if bounds is None:
        return table.target
    # Empty slots may hold anything, also what is no number.
    return grid_steps(np.where(table.present, table.target, bounds[0]), bounds)
