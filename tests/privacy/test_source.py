"""The stream is AES-256-CTR, never repeats across processes or threads, and is uniform."""

import hashlib
import os
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from hedgerow.privacy.source import SEED_BYTES, NoiseSource


def reference(seed: int, n: int) -> bytes:
    """The first bytes of a seeded stream, by the definition."""
    label = b"hedgerow/noise-source/v1/"
    key = hashlib.sha256(label + b"key/" + str(seed).encode()).digest()
    nonce = hashlib.sha256(label + b"nonce/" + str(seed).encode()).digest()[:16]
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor().update(bytes(n))


def test_stream_is_aes_ctr_in_any_pieces() -> None:
    source = NoiseSource.insecure_seeded(7)
    pieces = [source.bytes(n).tobytes() for n in (0, 1, 15, 3, 2**20 + 5, 64)]
    assert b"".join(pieces) == reference(7, sum(map(len, pieces)))


def test_known_answer() -> None:
    assert NoiseSource.insecure_seeded(0).bytes(8).tobytes() == reference(0, 8)
    assert NoiseSource.insecure_seeded(0).bytes(8).tobytes().hex() == "7d6ef2e7a8f85f03"


def test_seed_repeats_and_says_so() -> None:
    a, b, c = (NoiseSource.insecure_seeded(seed) for seed in (3, np.int64(3), -3))
    assert a.words(5).tolist() == b.words(5).tolist() != c.words(5).tolist()
    assert not a.private
    assert not a.spawn().private
    with pytest.raises(TypeError):
        NoiseSource.insecure_seeded("3")  # type: ignore[arg-type]


def test_system_sources_differ() -> None:
    draws = {NoiseSource.system().bytes(16).tobytes() for _ in range(100)}
    assert len(draws) == 100
    assert NoiseSource.system().private
    assert NoiseSource.system().spawn().private


def test_children_are_independent_and_repeat() -> None:
    def draws() -> list[bytes]:
        parent = NoiseSource.insecure_seeded(1)
        children = [parent.spawn(), parent.spawn()]
        return [s.bytes(32).tobytes() for s in (*children, parent)]

    assert draws() == draws()
    assert len(set(draws())) == 3


def test_words_are_little_endian() -> None:
    words = NoiseSource.insecure_seeded(2).words(4)
    assert words.dtype == np.uint64
    raw = reference(2, 32)
    assert words.tolist() == [int.from_bytes(raw[8 * i : 8 * i + 8], "little") for i in range(4)]


def test_bytes_are_uniform() -> None:
    counts = np.bincount(NoiseSource.insecure_seeded(4).bytes(10**6), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1000])
def test_integers_are_uniform(bound: int) -> None:
    draws = NoiseSource.insecure_seeded(bound).integers(bound, 10**6)
    counts = np.bincount(draws, minlength=bound)
    assert counts.size == bound
    assert bound == 1 or stats.chisquare(counts).pvalue > 1e-4


def test_integers_reject_instead_of_wrapping() -> None:
    # 2**64 = 1.33 * bound: a plain remainder would give the lowest third two thirds of the mass.
    bound = 3 << 61
    draws = NoiseSource.insecure_seeded(5).integers(bound, (1000, 100))
    assert draws.shape == (1000, 100)
    assert draws.dtype == np.int64
    thirds = np.bincount((draws // (1 << 61)).ravel(), minlength=3)
    assert stats.chisquare(thirds).pvalue > 1e-4
    assert NoiseSource.insecure_seeded(5).integers(1 << 63, np.int64(1000)).min() >= 0


@pytest.mark.parametrize("bound", [0, -1, (1 << 63) + 1])
def test_integers_refuse_empty_and_too_large_ranges(bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        NoiseSource.system().integers(bound, 1)


def test_threads_share_without_repeating() -> None:
    source = NoiseSource.insecure_seeded(9)
    drawn: list[bytes] = []

    def draw() -> None:
        drawn.extend(source.bytes(16).tobytes() for _ in range(500))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream = reference(9, 16 * 2000)
    assert sorted(drawn) == sorted(stream[i : i + 16] for i in range(0, len(stream), 16))


def in_child(source: NoiseSource) -> bytes:
    """What a forked child draws."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, source.bytes(32).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    assert len(drawn) == 32
    return drawn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_gives_another_stream() -> None:
    parent = NoiseSource.system()
    parent.bytes(5)
    for source in (parent, parent.spawn()):
        draws = {in_child(source), in_child(source), source.bytes(32).tobytes()}
        assert len(draws) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_another_thread_draws() -> None:
    for source in (NoiseSource.system(), NoiseSource.insecure_seeded(1)):
        with source._lock:
            assert len(in_child(source)) == 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_seeded_sources_repeat_after_a_fork() -> None:
    source = NoiseSource.insecure_seeded(1)
    assert in_child(source) == source.bytes(32).tobytes()


def test_repr_shows_no_key() -> None:
    assert repr(NoiseSource.insecure_seeded(1)) == "NoiseSource(private=False)"


def test_a_seed_that_was_kept_repeats_what_was_drawn() -> None:
    for source in (NoiseSource.system(), NoiseSource.insecure_seeded(3)):
        seed = source.bytes(SEED_BYTES).tobytes()
        first, again = (NoiseSource.from_seed(seed, private=source.private) for _ in range(2))
        assert first.private == source.private
        assert np.array_equal(first.bytes(100), again.bytes(100))
        assert not np.array_equal(first.bytes(100), source.bytes(100))
