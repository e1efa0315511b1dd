"""Arrays beyond a number of bytes lie in a file that has no name."""

import os
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.counts.forest import Batch
from hedgerow.trees.counts.spill import Spill


def on_disk(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def test_what_is_more_than_the_room_goes_to_the_disk_unchanged() -> None:
    rng = np.random.default_rng(0)
    spill = Spill(1000)
    inside, beyond = rng.random(100), rng.random((50, 3))
    assert spill.put(inside) is inside
    kept = spill.put(beyond)
    assert on_disk(kept)
    assert type(kept) is np.ndarray
    # Room is left for what is small.
    small = rng.random(25)
    assert spill.put(small) is small
    fortran = np.asfortranarray(rng.integers(0, 9, (5000, 4)).astype(np.uint8))
    other = spill.put(fortran)
    assert on_disk(other)
    assert other.flags.f_contiguous
    kept[0] = 7.0
    beyond[0] = 7.0
    np.testing.assert_array_equal(kept, beyond)
    np.testing.assert_array_equal(other, fortran)


def test_a_batch_keeps_its_rows_and_the_file_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bins = np.asfortranarray(np.arange(60, dtype=np.uint8).reshape(20, 3))
    batch = Batch(bins, np.arange(20, dtype=np.uint8) % 2, np.arange(20) % 3 > 0, 5)
    kept = Spill(0).put_batch(batch)
    assert on_disk(kept.columns)
    assert kept.number == 5
    for name in ("bins", "target", "present", "columns"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(batch, name))
    assert list(tmp_path.iterdir()) == []
    empty = Batch(bins[:0], batch.target[:0], batch.present[:0], 6)
    assert len(Spill(0).put_batch(empty).bins) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "r+b", buffering=0) as full:
        monkeypatch.setattr("hedgerow.trees.counts.spill.TemporaryFile", lambda prefix: full)
        with pytest.raises(HedgerowError) as caught:
            Spill(0).put(np.zeros(10))
    assert caught.value.code is Code.STATE_NOT_WRITTEN
    assert "TMPDIR" in caught.value.fix
