"""Arrays come back bit by bit, or not at all."""

import os
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.store import vault
from hedgerow.parties.store.vault import CHUNK_BYTES, TAG_BYTES, read_arrays, write_arrays
from tests.parties.forks import fork_printing
from tests.parties.store.writers import write_vaults

KEY = bytes(range(32))
ABOUT = {"server": "a", "kind": "model", "model": "m-1", "level": 3}
DTYPES = ["bool", "int8", "int64", "uint16", "uint64", "float16", "float64", "complex128"]


def refuses(code: Code, action: Callable[[], object]) -> str:
    with pytest.raises(HedgerowError) as caught:
        action()
    assert caught.value.code is code, str(caught.value)
    return str(caught.value)


def three_chunks() -> dict[str, np.ndarray]:
    words = np.random.default_rng(0).integers(0, 1 << 63, 3 * CHUNK_BYTES // 8 - 5, dtype=np.uint64)
    return {"shares": words, "small": np.arange(5, dtype=np.int16)}


def equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert list(first) == list(second)
    for name, array in first.items():
        assert array.dtype.newbyteorder("=") == second[name].dtype
        assert array.shape == second[name].shape
        assert array.tobytes() == second[name].astype(array.dtype).tobytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(DTYPES).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
        ),
        max_size=4,
    )
)
def test_round_trip(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_arrays(tmp_path / "v", arrays, KEY, about=ABOUT)
    equal(arrays, read_arrays(tmp_path / "v", KEY, about=ABOUT))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3_000_000])
def test_sizes_around_a_chunk(tmp_path: Path, size: int) -> None:
    arrays = {"a": np.arange(size, dtype=np.uint8), "b": np.ones(3)}
    write_arrays(tmp_path / "v", arrays, KEY, about=ABOUT)
    equal(arrays, read_arrays(tmp_path / "v", KEY, about=ABOUT))


def test_layouts_that_are_not_in_order(tmp_path: Path) -> None:
    base = np.arange(700_000, dtype=np.int64).reshape(700, 1000)
    arrays = {
        "transposed": base.T,
        "steps": base[::3, ::-7],
        "big-endian": base.astype(">i8"),
        "big-endian steps": base.astype(">i8")[::2, 1::2],
        "broadcast": np.broadcast_to(np.float32(0.5), (300, 1000)),
    }
    write_arrays(tmp_path / "v", arrays, KEY, about=ABOUT)
    back = read_arrays(tmp_path / "v", KEY, about=ABOUT)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype.isnative
        assert back[name].flags.writeable


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["a"]), np.array([1], "M8[s]"), np.zeros(1, "V3")]
)
def test_other_kinds_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    refuses(Code.WRONG_TYPE, lambda: write_arrays(tmp_path / "v", {"a": array}, KEY, about=ABOUT))
    assert list(tmp_path.iterdir()) == []


def test_nothing_readable_is_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "v"
    arrays = {"name-of-it": np.frombuffer(b"the secret value" * 100, dtype=np.uint8)}
    write_arrays(path, arrays, KEY, about=ABOUT)
    first = path.read_bytes()
    assert b"secret" not in first
    assert b"name-of-it" not in first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_arrays(path, arrays, KEY, about=ABOUT)
    # Salt and nonces are new each time, so equal content does not show.
    assert path.read_bytes()[-1000:] != first[-1000:]
    assert list(tmp_path.iterdir()) == [path]


def test_another_key(tmp_path: Path) -> None:
    write_arrays(tmp_path / "v", three_chunks(), KEY, about=ABOUT)
    other = KEY[:-1] + b"\xff"
    refuses(Code.VAULT_WRONG_KEY, lambda: read_arrays(tmp_path / "v", other, about=ABOUT))
    refuses(Code.BAD_STATE_KEY, lambda: read_arrays(tmp_path / "v", b"short", about=ABOUT))


@pytest.mark.parametrize(
    "change", [{"model": "m-2"}, {"server": "b"}, {"kind": "upload"}, {"level": 4}, {"level": "3"}]
)
def test_a_file_of_another_model(tmp_path: Path, change: dict[str, str | int]) -> None:
    write_arrays(tmp_path / "v", three_chunks(), KEY, about=ABOUT)
    text = refuses(
        Code.VAULT_OF_ANOTHER, lambda: read_arrays(tmp_path / "v", KEY, about=ABOUT | change)
    )
    assert "m-1" in text


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "v"
    write_arrays(path, {"a": np.arange(40)}, KEY, about=ABOUT)
    good = path.read_bytes()
    codes = set()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        with pytest.raises(HedgerowError) as caught:
            read_arrays(path, KEY, about=ABOUT)
        codes.add(caught.value.code)
    allowed = {Code.NOT_A_VAULT, Code.VAULT_DAMAGED, Code.VAULT_TRUNCATED}
    assert codes <= allowed, codes
    path.write_bytes(good)
    read_arrays(path, KEY, about=ABOUT)


def test_every_length_is_found(tmp_path: Path) -> None:
    path = tmp_path / "v"
    write_arrays(path, {"a": np.arange(4)}, KEY, about=ABOUT)
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        refuses(Code.VAULT_TRUNCATED, lambda: read_arrays(path, KEY, about=ABOUT))
    path.write_bytes(good + b"\0")
    refuses(Code.VAULT_DAMAGED, lambda: read_arrays(path, KEY, about=ABOUT))


def chunks_of(data: bytes) -> tuple[bytes, list[bytes]]:
    """Head (header and list of arrays), and the three full or partial chunks of `three_chunks`."""
    small = 10 + TAG_BYTES
    ends = [CHUNK_BYTES + TAG_BYTES] * 2 + [CHUNK_BYTES - 40 + TAG_BYTES, small]
    start = len(data) - sum(ends)
    head, parts = data[:start], []
    for end in ends:
        parts.append(data[start : start + end])
        start += end
    return head, parts


def test_chunks_cannot_be_moved_or_taken_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "v"
    write_arrays(path, three_chunks(), KEY, about=ABOUT)
    head, (a, b, *rest) = chunks_of(path.read_bytes())
    write_arrays(path, three_chunks(), KEY, about=ABOUT)
    head_2, (a_2, b_2, *rest_2) = chunks_of(path.read_bytes())
    for parts in (
        [head, b, a, *rest],
        [head, a, a, *rest],
        [head, a_2, b, *rest],
        [head, a_2, b_2, *rest_2],
        [head_2, a, b, *rest],
    ):
        path.write_bytes(b"".join(parts))
        refuses(Code.VAULT_DAMAGED, lambda: read_arrays(path, KEY, about=ABOUT))
    path.write_bytes(b"".join([head, a, b, *rest]))
    equal(three_chunks(), read_arrays(path, KEY, about=ABOUT))


def test_a_shorter_file_that_says_so_is_still_found(tmp_path: Path) -> None:
    """An attacker can write the header anew, except for what the key has authenticated."""
    path = tmp_path / "v"
    write_arrays(path, three_chunks(), KEY, about=ABOUT)
    data = path.read_bytes()
    cut = len(data) - (10 + TAG_BYTES)
    header = vault._FIXED.size + len(vault._canonical(ABOUT))
    fixed = list(vault._FIXED.unpack(data[: vault._FIXED.size]))
    fixed[6] = cut
    forged = vault._FIXED.pack(*fixed) + data[vault._FIXED.size : header]
    digest = vault.hashlib.sha256(forged).digest()
    path.write_bytes(forged + digest + data[header + 32 : cut])
    refuses(Code.VAULT_DAMAGED, lambda: read_arrays(path, KEY, about=ABOUT))


def test_no_vault_at_all(tmp_path: Path) -> None:
    path = tmp_path / "v"
    refuses(Code.NOT_A_VAULT, lambda: read_arrays(path, KEY, about=ABOUT))
    path.write_bytes(os.urandom(5000))
    refuses(Code.NOT_A_VAULT, lambda: read_arrays(path, KEY, about=ABOUT))
    write_arrays(tmp_path / "w", {}, KEY, about=ABOUT)
    assert read_arrays(tmp_path / "w", KEY, about=ABOUT) == {}
    path.unlink()
    path.symlink_to(tmp_path / "w")
    refuses(Code.NOT_A_VAULT, lambda: read_arrays(path, KEY, about=ABOUT))
    data = bytearray((tmp_path / "w").read_bytes())
    data[4] = 2
    (tmp_path / "w").write_bytes(data)
    refuses(Code.NOT_A_VAULT, lambda: read_arrays(tmp_path / "w", KEY, about=ABOUT))


def test_memory_is_that_of_the_arrays(tmp_path: Path) -> None:
    size = 128 << 20
    # An array that takes no memory itself.
    table = np.broadcast_to(np.uint64(7), (size // 8,))
    tracemalloc.start()
    try:
        write_arrays(tmp_path / "v", {"t": table}, KEY, about=ABOUT)
        _, writing = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        back = read_arrays(tmp_path / "v", KEY, about=ABOUT)
        _, reading = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert writing < 8 << 20
    assert reading < size + (8 << 20)
    assert (back["t"] == 7).all()


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path, rng = tmp_path / "v", np.random.default_rng(3)
    for _ in range(8):
        child, told = fork_printing(write_vaults, path, KEY)
        with told:
            said = int(told.readline())
            child.join(rng.uniform(0, 0.2))
            child.kill()
            rest = told.read().split()
        child.join()
        said = int(rest[-1]) if rest else said
        back = read_arrays(path, KEY, about={})
        value = int(back["b"][0])
        assert value >= said
        assert (back["a"] == value).all()
