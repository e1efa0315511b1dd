"""Textbook versions, bit by bit and block by block, and pairs of peers for tests."""

import hashlib
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hedgerow.crypto.oblivious_transfer import ReceivedRows, Receiver, Sender, SentRows


def seeded(label: str) -> Callable[[int], bytes]:
    """Return a source of bytes in the place of the operating system's; each call draws others."""
    calls = count()
    return lambda n: hashlib.shake_256(f"{label}/{next(calls)}".encode()).digest(n)


def set_up(label: str = "pair", session: bytes = b"session") -> tuple[Sender, Receiver]:
    """Return both sides after their set-up."""
    sender = Sender(session, (0, 1), seeded(f"{label}/sender"))
    receiver = Receiver(session, (0, 1), seeded(f"{label}/receiver"))
    points = receiver.begin()
    sender.finish(points, receiver.plant(sender.begin()))
    return sender, receiver


def extend(
    pair: tuple[Sender, Receiver], choices: NDArray[Any], counter: int
) -> tuple[SentRows, ReceivedRows]:
    sender, receiver = pair
    message, received = receiver.extend(choices, counter)
    return sender.extend(message, len(choices), counter), received


def number(words: NDArray[np.uint64]) -> int:
    """Read two words as a number of 128 bits."""
    return int(words[0]) | int(words[1]) << 64


def numbers(rows: NDArray[np.uint64]) -> list[int]:
    return [number(row) for row in rows]


def aes(key: bytes, block: int) -> int:
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return int.from_bytes(cipher.update(block.to_bytes(16, "little")), "little")


def tmmo(key: bytes, x: int, counter: int, node: int, index: int) -> int:
    """H(x, i) = pi(pi(x) ^ i) ^ pi(x), with i = counter, node, index from the top."""
    inner = aes(key, x)
    return aes(key, inner ^ (counter << 64 | node << 40 | index)) ^ inner


def ggm_leaves(
    key: bytes, root: int, delta: int, levels: int, counter: int, index: int
) -> list[list[int]]:
    """All levels of a correlated tree from its two upper nodes on, by the definition."""
    nodes = {2: root, 3: root ^ delta}
    for h in range(2, 1 << levels):
        left = tmmo(key, nodes[h], counter, h, index)
        nodes[2 * h], nodes[2 * h + 1] = left, nodes[h] ^ left
    return [[nodes[h] for h in range(1 << d, 2 << d)] for d in range(1, levels + 1)]
