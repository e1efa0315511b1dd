"""Tables that owners share as bits, before anybody knows what will be trained on them.

An owner shares the bits of bin numbers, class numbers and presence: a few bits per cell instead of
a number per bin. The servers make one-hot columns of them when a job asks for it, in the layout and
ring of that job. Any bits are some row (a number beyond the bins counts as the last of them), so no
upload can hold a record that counts twice or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.layout import Layout
from hedgerow.protocols.queries import one_hot_bits
from hedgerow.protocols.table import SecretTable, Upload, check_uploads
from hedgerow.secure.engine import Engine
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import WORD, Secret, SecretBits, concatenate
from hedgerow.tables import Domain, Encoded

_BLOCK = 1 << 24
"""Elements that are made of bits at once."""


def n_planes(domain: Domain, *, target: bool) -> int:
    """Return how many bits a record of a domain takes, one of them its presence."""
    return 1 + sum(_widths(domain, target=target))


def planes_of(table: Encoded) -> NDArray[np.bool_]:
    """Return the bits of a table, bool (planes, slots): presence, attributes, class.

    Numbers stand highest bit first; empty slots are all zero.
    """
    numbers = [table.bins[:, feature] for feature in range(table.n_features)]
    if table.target is not None:
        _classes(table.domain)
        numbers.append(table.target)
    planes = [table.present]
    widths = _widths(table.domain, target=table.target is not None)
    for number, width in zip(numbers, widths, strict=True):
        kept = np.where(table.present, number, 0).astype(np.int64)
        planes += [(kept >> bit) & 1 != 0 for bit in reversed(range(width))]
    return np.stack(planes)


def expand_table(
    engine: Engine,
    layout: Layout,
    ring: Ring,
    uploads: Sequence[Upload],
    planes: Mapping[int, SecretBits],
    n_columns: int,
) -> SecretTable:
    """Make one-hot columns of shared bits and put the uploads together (algorithm 11).

    Paper: hiddentrees.

    1. Numbers become one-hot bits, all attributes at once (`one_hot_bits`); the presence of a row
       is conjoined.
    2. Bits become numbers of the ring, in blocks of rows.
    3. Rows below rows, columns beside columns.

    Reveals: nothing.
    Cost: per upload the largest width of an attribute in rounds of ANDs, and 2 rounds per block.

    Parameters
    ----------
    engine : Engine
    layout : Layout
    ring : Ring
    uploads : sequence of Upload
        Public; together they fill every cell once.
    planes : mapping of int to SecretBits, shape (planes, slots)
        By party, as `planes_of` orders them.
    n_columns : int
        Classes.
    """
    n = check_uploads(layout, uploads)
    lead = next(iter(planes.values())).data.shape[: engine.share_axes]
    onehot = np.zeros((*lead, n, layout.n_columns), ring.dtype)
    columns = np.zeros((*lead, n, n_columns), ring.dtype)
    for upload in uploads:
        bits = planes[upload.party]
        index = layout.columns_of(upload.features)
        cells, classes = _indicators(layout, upload, bits, n_columns)
        where = slice(None) if len(index) == layout.n_columns else index
        for at, block in _blocks(cells, upload.rows):
            rows = slice(upload.first + at.start, upload.first + at.stop)
            onehot[..., rows, where] = _numbers(block, ring)
        if classes is not None:
            for at, block in _blocks(classes, upload.rows):
                rows = slice(upload.first + at.start, upload.first + at.stop)
                columns[..., rows, :] = _numbers(block, ring)
    return SecretTable(layout, Secret(engine, ring, onehot), Secret(engine, ring, columns))


def _indicators(
    layout: Layout, upload: Upload, bits: SecretBits, n_columns: int
) -> tuple[SecretBits, SecretBits | None]:
    """Return the columns (columns, slots) of an upload, and those of its classes."""
    domain = layout.domain.select(list(upload.features), target=upload.target)
    widths = _widths(domain, target=upload.target)
    if bits.shape != (1 + sum(widths), upload.rows):
        raise Code.WRONG_SHAPE.error(
            expected=f"{1 + sum(widths)} planes of {upload.rows:,} slots from {upload.party}",
            found=f"{bits.shape}",
        )
    most = max(widths)
    numbers = _padded(bits, widths, most)
    zero = bits.engine.public_bits(np.zeros((1, bits.n), dtype=np.bool_))
    sizes = [*domain.n_bins, *([n_columns] if upload.target else [])]
    hot, size = concatenate([one_hot_bits(numbers, sizes), zero]), 1 << most
    m = len(upload.features)
    columns = layout.widths(upload.features)
    owner = np.repeat(np.arange(m), columns)
    bin_ = np.arange(int(columns.sum())) - np.repeat(np.cumsum(columns) - columns, columns)
    # A padding column of a w-ary table may lie beyond what the bits of this owner can say.
    places = np.where(bin_ < size, owner * size + bin_, len(hot) - 1)
    present = bits[:1]
    if not upload.target:
        return hot[places] & present, None
    return hot[places] & present, hot[m * size + np.arange(n_columns)] & present


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
    return block.engine.b2a(block, ring).transpose().data


def _widths(domain: Domain, *, target: bool) -> list[int]:
    """Return the bits of every number of a record."""
    sizes = [int(bins) for bins in domain.n_bins]
    if target:
        sizes.append(_classes(domain))
    return [max(1, (size - 1).bit_length()) for size in sizes]


def _classes(domain: Domain) -> int:
    if domain.target is None or domain.target.classes is None:
        raise Code.BAD_TARGET.error(
            expected="a target with classes in a table that is shared as bits",
            found="a domain without target classes",
        )
    return len(domain.target.classes)
