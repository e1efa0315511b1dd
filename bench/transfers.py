"""Oblivious transfer between two peers, both sides one after the other on one core.

Rates are processor time of both sides together, so that other work on the machine matters little;
bytes are those of all messages per transfer or record. A profile of the extension says which part
of it takes how much.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.harness import row, seconds
from hedgerow.crypto.oblivious_transfer import (
    ReceivedRows,
    Receiver,
    ReceiverTrees,
    Sender,
    SenderTrees,
    SentRows,
    index_bits,
    path_bits,
    receive_chosen,
    receive_correlated,
    receive_one_of,
    receive_random,
    send_chosen,
    send_correlated,
    send_one_of,
    send_random,
)

MILLION = 10**6
RECORDS, FEATURES, BINS = 50_000, 15, 8
REPEATS = 5
PARTS = ("update_into", "_transpose", "_bucket", "_fold", "fill", "blake2b")


class Pair:
    """Both sides of a pair after their set-up, and the bytes that they have sent."""

    def __init__(self) -> None:
        self.sender, self.receiver = Sender(b"bench", (0, 1)), Receiver(b"bench", (0, 1))
        first, points = self.sender.begin(), self.receiver.begin()
        second = self.receiver.plant(first)
        self.sender.finish(points, second)
        self.bytes = first.nbytes + points.nbytes + second.nbytes
        self._counters = count()

    def extend(self, choices: NDArray[Any]) -> tuple[SentRows, ReceivedRows]:
        """Make a batch of transfers."""
        counter = next(self._counters)
        message, received = self.receiver.extend(choices, counter)
        self.bytes += message.nbytes
        return self.sender.extend(message, len(choices), counter), received

    def carry(self, message: NDArray[Any]) -> NDArray[Any]:
        """Count a message from sender to receiver."""
        self.bytes += message.nbytes
        return message

    def resume(self) -> None:
        """Bind both sides to the next session."""
        session = next(self._counters).to_bytes(16, "little")
        self.sender.bind(session)
        self.receiver.bind(session)


def cases(pair: Pair) -> dict[str, tuple[int, Callable[[], object]]]:
    """Return what is timed, with the number of transfers or records in it."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, MILLION, dtype=np.uint8)
    words = rng.integers(0, 1 << 63, MILLION, dtype=np.uint64)
    many = rng.integers(0, 1 << 63, (10_000, 256), dtype=np.uint64)
    index = rng.integers(0, 256, len(many))
    bins = rng.integers(0, BINS, RECORDS * FEATURES)

    def random() -> None:
        sent, received = pair.extend(bits)
        send_random(sent)
        receive_random(received)

    def correlated(x: NDArray[Any]) -> None:
        sent, received = pair.extend(bits)
        _, message = send_correlated(sent, x)
        receive_correlated(received, pair.carry(message), x.dtype)

    def chosen() -> None:
        sent, received = pair.extend(bits)
        receive_chosen(received, pair.carry(send_chosen(sent, words, words)), words.dtype)

    def one_of(size: int) -> None:
        at = index % size
        sent, received = pair.extend(index_bits(at, size))
        message = pair.carry(send_one_of(sent, many[:, :size]))
        receive_one_of(received, at, message, size, many.dtype)

    def all_but_one() -> None:
        sent, received = pair.extend(path_bits(bins, BINS))
        theirs, message = SenderTrees.send(sent, BINS)
        ours = ReceiverTrees.receive(received, bins, BINS, pair.carry(message))
        for at in range(0, bins.size, RECORDS):
            theirs.seeds(slice(at, at + RECORDS))
            ours.seeds(slice(at, at + RECORDS))

    return {
        "extension alone, 10^6": (MILLION, lambda: pair.extend(bits)),
        "a batch of 1,000": (1_000, lambda: pair.extend(bits[:1_000])),
        "random, 10^6": (MILLION, random),
        "correlated in Z_2^64, 10^6": (MILLION, lambda: correlated(words)),
        "correlated bits, 10^6": (MILLION, lambda: correlated(bits.astype(np.bool_))),
        "chosen, 64 bits, 10^6": (MILLION, chosen),
        "one of 8, 64 bits, 10^4": (len(many), lambda: one_of(8)),
        "one of 256, 64 bits, 10^4": (len(many), lambda: one_of(256)),
        f"all but one of {BINS}, {RECORDS:,} records x {FEATURES}": (bins.size, all_but_one),
    }


def profiled(work: Callable[[], object]) -> dict[str, float]:
    """Return the share of some work's time in each of its parts."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(work)
    stats = pstats.Stats(profile)
    shares = dict.fromkeys(PARTS, 0.0)
    for (_, _, function), figures in stats.stats.items():  # type: ignore[attr-defined]
        for part in PARTS:
            if part in function:
                shares[part] += figures[2] / stats.total_tt  # type: ignore[attr-defined]
    return {part: round(share, 2) for part, share in shares.items()}


def run() -> list[dict[str, Any]]:
    """Time the set-up, then each kind of transfer."""
    pair, clock = Pair(), time.process_time
    rows = [
        row(
            "set-up of a pair, 128 base transfers",
            seconds(Pair, REPEATS, clock),
            bytes=pair.bytes,
        ),
        row("a new session for a pair", seconds(pair.resume, REPEATS, clock)),
    ]
    for name, (n, work) in cases(pair).items():
        before = pair.bytes
        taken = seconds(work, REPEATS, clock)
        each = (pair.bytes - before) / (REPEATS + 1) / n
        rate = round(n / taken / 1e6, 2)
        rows.append(row(name, taken, millions_per_s=rate, bytes_each=round(each, 2)))
    shares = profiled(cases(pair)["extension alone, 10^6"][1])
    rows.append(row("extension alone, by part", 1.0, unit="share", **shares))
    return rows
