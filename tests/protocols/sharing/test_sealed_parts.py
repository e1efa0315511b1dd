"""Shares that others carry: sealed, opened at their servers, and joined to the same array."""

import os

import numpy as np
import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.sharing.sealed_parts import (
    bits_of,
    fitting,
    open_dealt,
    seal_dealt,
    sealed_size,
    secret_of,
)
from hedgerow.secure.ring import Z16, Z64
from tests.secure.engines import ENGINES, reveal

KEYS = [SealingKey() for _ in range(3)]
PUBLIC = [key.public for key in KEYS]


def context(server: int) -> bytes:
    return f"part {server}".encode()


def opened(sealed, shape, ring):
    return {
        server: [
            open_dealt(sealed[server], KEYS[server], context(server), server, shape, ring, "x")
        ]
        for server in range(3)
    }


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize("ring", [Z16, Z64])
@pytest.mark.parametrize("shape", [(3, 5), (1,), (2, 0)])
def test_the_array_comes_back(name, ring, shape) -> None:
    values = np.random.default_rng(0).integers(0, 60_000, shape)
    sealed = seal_dealt(values, ring, context, PUBLIC, os.urandom)
    assert [len(part) for part in sealed] == [sealed_size(shape, ring, s) for s in range(3)]
    engine, parts = ENGINES[name](), opened(sealed, shape, ring)
    assert fitting(engine, parts, 1).tolist() == [True]
    np.testing.assert_array_equal(reveal(secret_of(engine, parts, 0, shape, ring)), values)


@pytest.mark.parametrize("name", ["clear", "three servers"])
@pytest.mark.parametrize("shape", [(3, 5), (2, 64), (2, 3, 130), (2, 0)])
def test_bits_come_back(name, shape) -> None:
    bits = np.random.default_rng(0).integers(0, 2, shape) != 0
    sealed = seal_dealt(bits, None, context, PUBLIC, os.urandom)
    assert [len(part) for part in sealed] == [sealed_size(shape, None, s) for s in range(3)]
    engine, parts = ENGINES[name](), opened(sealed, shape, None)
    assert fitting(engine, parts, 1).tolist() == [True]
    np.testing.assert_array_equal(reveal(bits_of(engine, parts, 0, shape)), bits)
    assert sealed_size((2, 130), None, 1) - sealed_size((2, 0), None, 1) == 2 * 3 * 8


@pytest.mark.parametrize("name", ["clear", "three servers"])
def test_parts_of_two_arrays_do_not_fit(name: str) -> None:
    first, second = (seal_dealt([value], Z64, context, PUBLIC, os.urandom) for value in (1, 2))
    mixed = opened([first[0], first[1], second[2]], (1,), Z64)
    missing = {server: [None if server == 1 else part[0]] for server, part in mixed.items()}
    for parts in (mixed, missing):
        assert fitting(ENGINES[name](), parts, 1).tolist() == [False]


def test_a_part_is_for_its_server_and_shape() -> None:
    sealed = seal_dealt([1, 2], Z16, context, PUBLIC, os.urandom)
    for server, shape, text in ((0, (2,), b"part 1"), (1, (3,), b"part 1"), (1, (2,), b"other")):
        with pytest.raises(HedgerowError) as caught:
            open_dealt(sealed[1], KEYS[server], text, server, shape, Z16, "x")
        assert caught.value.code is Code.SEALED_REFUSED
