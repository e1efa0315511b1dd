"""Seconds, from what parties would send and compute: a sum over few kinds of work.

What one unit of a kind takes stands in `KINDS`, in processor seconds of the machine that `python -m
bench estimate` was tuned on. Another machine is compared with that one by four small probes, which
take about a second and are made anew each time: a machine that does more at once is slower.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow import jsonfile
from hedgerow.crypto.commutative import Curve25519Cipher
from hedgerow.crypto.prg import KEY_BYTES, Prg
from hedgerow.errors import Code
from hedgerow.protocols.estimate.traffic import Rehearsed
from hedgerow.secure.kernels import add_product

_MOST = 1_000_000_000
_MOST_CORES = 1_000_000


class WorkKind(NamedTuple):
    """Processor seconds of a unit where it was tuned, and the probe that it goes with."""

    seconds: float
    probe: str
    threads: bool = False


KINDS: Mapping[str, WorkKind] = {
    "parties": WorkKind(1.7, "calls"),
    "rounds": WorkKind(4.3e-4, "calls"),
    "transfers": WorkKind(1.3e-3, "calls"),
    "bytes": WorkKind(1.1e-8, "streams"),
    "transferred bytes": WorkKind(2.7e-8, "streams"),
    "seed bytes": WorkKind(1e-9, "streams"),
    "products": WorkKind(1e-10, "products", threads=True),
    "encryptions": WorkKind(3.1e-5, "points", threads=True),
    "hashes": WorkKind(1.6e-4, "points", threads=True),
}
"""Processes that start, with what they import; rounds of a party, and steps of its mail; batches of
oblivious transfers with another party; payload; what seeds grow into; products of numbers, and
points of a curve, inside a party."""

TRANSFERS = ("base transfers", "preprocessing", "punctured seeds", "bit products")
"""Steps of oblivious transfer, whose bytes take more work than others."""

PROBED: Mapping[str, float] = {
    "calls": 6.3e-3,
    "streams": 8.8e-4,
    "products": 1.35e-2,
    "points": 6.4e-3,
}
"""Processor seconds of the probes where `KINDS` was tuned."""


@dataclass(frozen=True)
class Speed:
    """How much longer the probes take here than where `KINDS` was tuned."""

    ratios: Mapping[str, float]

    @classmethod
    def here(cls) -> Speed:
        """Run the probes: the median of several runs, in processor seconds."""
        return cls({name: _median(probe) / PROBED[name] for name, probe in _PROBES.items()})


def amounts(rehearsed: Rehearsed, party: int) -> Counter[str]:
    """Return what a party does, by kind; work that messages do not show is divided evenly."""
    found, steps = Counter({"parties": 1}), rehearsed.reading
    for step in steps.steps:
        sent = steps.at(step, party)
        if step in TRANSFERS:
            found["transferred bytes"] += sent.payload
            found["transfers"] += sent.rounds * (len(rehearsed.parties) - 1)
        else:
            found["bytes"] += sent.payload
        # Mail is no round, and has to be read and written all the same.
        found["rounds"] += sent.rounds or bool(sent.payload)
    for kind, amount in rehearsed.work.items():
        found[kind] += amount // len(rehearsed.parties)
    return found


def processor_seconds(done: Mapping[str, int], speed: Speed, cores: int = 1) -> float:
    """Return the seconds that amounts of work take; with more cores those that have threads."""
    return sum(
        KINDS[kind].seconds
        * speed.ratios[KINDS[kind].probe]
        * amount
        / (cores if KINDS[kind].threads else 1)
        for kind, amount in done.items()
    )


@dataclass(frozen=True)
class Link:
    """A network: milliseconds there and back, and megabits in a second that a party can send.

    H501 for what is no number, or beyond every network.
    """

    latency: float = 0.5
    bandwidth: float = 1000.0

    def __post_init__(self) -> None:
        # Not a number compares as false: it is refused, too.
        if not (0 <= self.latency <= _MOST and 0 < self.bandwidth <= _MOST):
            raise Code.BAD_PARAMETER.error(
                expected=f"a latency from 0 to {_MOST:,} ms, and a bandwidth above 0 and of at "
                f"most {_MOST:,} Mbit/s",
                found=f"{self.latency:g} ms, {self.bandwidth:g} Mbit/s",
            )

    def seconds(self, latencies: int, payload: int) -> float:
        """Return the time of messages that wait for each other, and of so many bytes."""
        return latencies * self.latency / 2000 + 8 * payload / (self.bandwidth * 1e6)


@dataclass(frozen=True)
class PartyEstimate:
    """What a party sends and computes; `offline` of it before rows are needed."""

    party: str
    offline_bytes: int
    online_bytes: int
    computing: float

    @property
    def sent(self) -> int:
        """All bytes."""
        return self.offline_bytes + self.online_bytes


@dataclass(frozen=True)
class JobEstimate:
    """How long a job takes, and what it sends; `note` says of which model."""

    parties: tuple[PartyEstimate, ...]
    offline_rounds: int
    online_rounds: int
    latencies: int
    link: Link
    note: str = ""

    @classmethod
    def of(
        cls, rehearsed: Rehearsed, link: Link, speed: Speed | None = None, cores: int = 1
    ) -> JobEstimate:
        """Add up a rehearsal, at the speed of this machine by default; H501 for odd cores."""
        if not 1 <= cores <= _MOST_CORES:
            raise Code.BAD_PARAMETER.error(
                expected=f"from 1 to {_MOST_CORES:,} cores", found=jsonfile.shown(cores)
            )
        offline, online = (rehearsed.phase(offline=which) for which in (True, False))
        speed = speed or Speed.here()
        parties = tuple(
            PartyEstimate(
                name,
                offline.total(i).payload,
                online.total(i).payload,
                processor_seconds(amounts(rehearsed, i), speed, cores),
            )
            for i, name in enumerate(rehearsed.parties)
        )
        rounds = offline.rounds, online.rounds
        return cls(parties, *rounds, rehearsed.latencies, link, rehearsed.note)

    @property
    def computing(self) -> float:
        """Seconds of the party that computes longest: they compute side by side."""
        return max(one.computing for one in self.parties)

    @property
    def network(self) -> float:
        """Seconds on the network."""
        return self.link.seconds(self.latencies, max(one.sent for one in self.parties))

    @property
    def seconds(self) -> float:
        """Seconds of the whole job."""
        return self.computing + self.network

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "parties": [
                {
                    "party": one.party,
                    "offline_bytes": one.offline_bytes,
                    "online_bytes": one.online_bytes,
                    "computing_seconds": one.computing,
                }
                for one in self.parties
            ],
            "offline_rounds": self.offline_rounds,
            "online_rounds": self.online_rounds,
            "latencies": self.latencies,
            "computing_seconds": self.computing,
            "network_seconds": self.network,
            "seconds": self.seconds,
            "note": self.note,
        }


def _median(probe: Callable[[], object]) -> float:
    probe()
    return statistics.median(_timed(probe) for _ in range(9))


def _timed(probe: Callable[[], object]) -> float:
    start = time.process_time()
    probe()
    return time.process_time() - start


def _calls() -> None:
    """Do what a round does around its arrays: small objects, small messages."""
    near, far = socket.socketpair()
    with near, far:
        for i in range(2000):
            near.sendall(np.add(np.zeros(4), {"step": i}["step"]).tobytes())
            far.recv(64)


def _streams() -> None:
    """Draw masks and add them up."""
    stream = Prg(bytes(KEY_BYTES))
    for _ in range(64):
        # Small enough for memory that is used again, whatever was done before.
        words = stream.fill("probe", 1 << 13, np.uint64)
        np.multiply(words, words, out=words)


def _products() -> None:
    ones = np.ones((64, 1 << 14), np.uint64)
    add_product(ones, ones[:, : 1 << 14].T, np.zeros((64, 64), np.uint64))


def _points() -> None:
    cipher = Curve25519Cipher()
    cipher.encrypt(cipher.new_key(), np.full((200, cipher.width), 9, np.uint8))


_PROBES: Mapping[str, Callable[[], None]] = {
    "calls": _calls,
    "streams": _streams,
    "products": _products,
    "points": _points,
}
