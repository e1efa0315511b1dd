"""All but one: trees by the definition, the hole where it belongs, seeds that look uniform."""

from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import (
    Receiver,
    ReceiverTrees,
    Sender,
    SenderTrees,
    depth,
    path_bits,
)
from hedgerow.errors import Code, HedgerowError
from tests.crypto.oblivious_transfer.plain import (
    extend,
    ggm_leaves,
    number,
    numbers,
    set_up,
    tmmo,
)

RNG = np.random.default_rng(13)
COUNTER = count(1 << 50)


@pytest.fixture(scope="module")
def pair() -> tuple[Sender, Receiver]:
    return set_up("trees")


def planted(
    pair: tuple[Sender, Receiver], index: NDArray[Any], of: int
) -> tuple[SenderTrees, ReceiverTrees, NDArray[np.uint64]]:
    sent, received = extend(pair, path_bits(index, of), next(COUNTER))
    trees, message = SenderTrees.send(sent, of)
    return trees, ReceiverTrees.receive(received, index, of, message), message


@pytest.mark.parametrize("of", [2, 3, 4, 5, 8, 13, 32, 256])
def test_the_receiver_lacks_the_seed_of_its_index_alone(pair, of: int) -> None:
    n = 500
    index = RNG.integers(0, of, n)
    index[:of] = np.arange(of)[:n]
    sender, receiver, message = planted(pair, index, of)
    all_, but_one = sender.seeds(), receiver.seeds()
    assert all_.shape == but_one.shape == (n, of, 2)
    hole = np.arange(of) == index[:, None]
    np.testing.assert_array_equal((all_ == but_one).all(axis=2), ~hole)
    assert not but_one[hole].any()
    assert np.unique(all_[..., 0]).size == n * of
    assert message.nbytes == 16 * (depth(of) - 1) * n


@pytest.mark.parametrize("of", [2, 6, 8])
def test_trees_are_those_of_the_definition(pair, of: int) -> None:
    index, levels = RNG.integers(0, of, 5), depth(of)
    choices = np.concatenate([np.zeros(9, dtype=np.uint8), path_bits(index, of)])
    whole, _ = extend(pair, choices, next(COUNTER))
    _, sent = whole.split([9, 5 * levels])
    q, delta, counter = numbers(sent._rows), number(sent.delta), sent.counter
    trees, message = SenderTrees.send(sent, of)
    key, seeds = pair[0]._context.hash("row hash", 16), trees.seeds()
    corrections = message.reshape(levels - 1, 5, 2)
    for j in range(5):
        grown = ggm_leaves(key, q[j], delta, levels, counter, 9 + j)
        for level, nodes in enumerate(grown):
            total = 0
            for node in nodes:
                total ^= node
            assert total == delta
            if level:
                left = 0
                for node in nodes[::2]:
                    left ^= node
                assert number(corrections[level - 1, j]) == left ^ q[5 * level + j]
        plain = [
            tmmo(key, leaf, counter, (1 << levels) + y, 9 + j) for y, leaf in enumerate(grown[-1])
        ]
        assert numbers(seeds[j]) == plain[:of]


def test_blocks_are_parts_of_the_whole(pair) -> None:
    n, of = 10_000, 8
    index = RNG.integers(0, of, n)
    for trees in planted(pair, index, of)[:2]:
        whole = trees.seeds()
        for part in (slice(0, 1), slice(4_090, 4_100), slice(9_000, n), slice(7, 7)):
            np.testing.assert_array_equal(trees.seeds(part), whole[part])
        assert len(trees) == n
        assert len(repr(trees)) < 60


def test_what_is_kept(pair) -> None:
    sender, receiver, _ = planted(pair, np.zeros(100, int), 8)
    assert sender._kept.base is None
    assert (sender._kept.nbytes, receiver._kept.nbytes) == (16 * 100, 16 * 3 * 100)


@pytest.mark.parametrize("value", [0, 5])
def test_messages_and_seeds_look_uniform(pair, value: int, chi_square) -> None:
    sender, receiver, message = planted(pair, np.full(4_000, value), 8)
    seeds = sender.seeds()
    known = np.delete(receiver.seeds(), value, axis=1)
    others = np.bitwise_xor.reduce(known, axis=1)
    for data in (message, seeds, known, seeds[:, value], seeds[:, value] ^ others):
        counts = np.bincount(np.ascontiguousarray(data).view(np.uint8).ravel(), minlength=256)
        assert chi_square(counts, np.full(256, 1 / 256)) > 1e-4


def test_the_missing_seed_is_hidden_by_delta_alone(pair) -> None:
    """With Delta the receiver would have the leaf: its nodes of a level sum to it."""
    index = RNG.integers(0, 8, 50)
    sender, receiver, _ = planted(pair, index, 8)
    *_, leaves = receiver._levels(slice(0, 50))
    found = np.bitwise_xor.reduce(leaves, axis=1) ^ pair[0]._delta
    *_, all_ = sender._levels(slice(0, 50))
    np.testing.assert_array_equal(found, all_[np.arange(50), index])


def test_rows_and_messages_that_do_not_fit(pair) -> None:
    index = RNG.integers(0, 8, 20)
    sent, received = extend(pair, path_bits(index, 8), next(COUNTER))
    _, message = SenderTrees.send(sent, 8)
    for bad in (message[:-1], message.view(np.uint8), message.reshape(-1, 2)):
        with pytest.raises(HedgerowError) as refused:
            ReceiverTrees.receive(received, index, 8, bad)
        assert refused.value.code is Code.BAD_TRANSFER_MESSAGE
    with pytest.raises(ValueError, match="indices"):
        ReceiverTrees.receive(received, index, 7 if index.max() == 7 else index.max(), message)
    ReceiverTrees.receive(received, index, 8, message)
    for call in (
        lambda: SenderTrees.send(sent, 8),
        lambda: ReceiverTrees.receive(received, index, 8, message),
    ):
        with pytest.raises(HedgerowError) as refused:
            call()
        assert refused.value.code is Code.TRANSFER_USED_TWICE
    other, received = extend(pair, path_bits(index, 8), next(COUNTER))
    with pytest.raises(ValueError, match="need 7 rows each"):
        SenderTrees.send(other, 100)
    with pytest.raises(ValueError, match="need 3 rows each"):
        ReceiverTrees.receive(received, index[:-1], 8, message[:-4])
    # Nothing was used up by what did not fit.
    _, message = SenderTrees.send(other, 8)
    assert len(ReceiverTrees.receive(received, index, 8, message)) == 20
