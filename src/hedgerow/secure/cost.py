"""What a step costs: rounds, and payload bytes that each party sends."""

from __future__ import annotations

from dataclasses import dataclass

Bytes = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """Rounds and payload bytes of a step; costs in sequence add up, those of one engine only.

    Bytes are those sent by each party, without frames and TLS. `preprocessing` is sent ahead,
    before a party has an input: nothing waits for it.
    """

    rounds: int = 0
    bytes: Bytes = ()
    preprocessing: Bytes = ()

    def __post_init__(self) -> None:
        # Nothing is nothing for any number of parties.
        for name in ("bytes", "preprocessing"):
            if not any(getattr(self, name)):
                object.__setattr__(self, name, ())

    @property
    def mean_bytes(self) -> float:
        """Mean over the parties, without preprocessing."""
        return sum(self.bytes) / max(len(self.bytes), 1)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.rounds + other.rounds,
            _sum(self.bytes, other.bytes),
            _sum(self.preprocessing, other.preprocessing),
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(
            self.rounds * times,
            tuple(b * times for b in self.bytes),
            tuple(b * times for b in self.preprocessing),
        )

    __rmul__ = __mul__

    @classmethod
    def equal(cls, rounds: int, bytes_each: int, n_parties: int) -> Cost:
        """Return the cost of a step in which every party sends the same."""
        return cls(rounds, (bytes_each,) * n_parties)


NOTHING = Cost()


def _sum(some: Bytes, others: Bytes) -> Bytes:
    if not some or not others:
        return some or others
    return tuple(a + b for a, b in zip(some, others, strict=True))
