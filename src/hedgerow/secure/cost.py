"""What a step costs: rounds, and payload bytes that each server sends."""

from __future__ import annotations

from dataclasses import dataclass

SERVERS = 3


@dataclass(frozen=True)
class Cost:
    """Rounds and payload bytes of a step; costs in sequence add up.

    Parameters
    ----------
    rounds : int
        Messages that wait for one another.
    bytes : tuple of three int
        Sent by each server, without frames and TLS.
    """

    rounds: int = 0
    bytes: tuple[int, ...] = (0,) * SERVERS

    @property
    def mean_bytes(self) -> float:
        """Mean over the servers."""
        return sum(self.bytes) / len(self.bytes)

    def __add__(self, other: Cost) -> Cost:
        both = zip(self.bytes, other.bytes, strict=True)
        return Cost(self.rounds + other.rounds, tuple(a + b for a, b in both))

    def __mul__(self, times: int) -> Cost:
        return Cost(self.rounds * times, tuple(b * times for b in self.bytes))

    __rmul__ = __mul__

    @classmethod
    def equal(cls, rounds: int, bytes_each: int) -> Cost:
        """Return the cost of a step in which every server sends the same."""
        return cls(rounds, (bytes_each,) * SERVERS)


NOTHING = Cost()
