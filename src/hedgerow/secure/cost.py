"""What a step costs: rounds, and payload bytes that each party sends."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

Bytes = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """Rounds and payload bytes of a step; costs in sequence add up, those of one engine only.

    Bytes are those sent by each party, without frames and TLS. `preprocessing` is sent before a
    party has an input, in `preprocessing_rounds` of its own. `demand` is what preprocessing makes,
    so many of each kind, in the engine's words; made ahead for several steps together it takes
    fewer rounds than these, which are those of making it step by step.
    """

    rounds: int = 0
    bytes: Bytes = ()
    preprocessing: Bytes = ()
    preprocessing_rounds: int = 0
    # Costs are compared by what is sent, as a meter knows it.
    demand: Mapping[Hashable, int] = field(default_factory=dict, compare=False)

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
        kinds = {**self.demand, **other.demand}
        return Cost(
            self.rounds + other.rounds,
            _sum(self.bytes, other.bytes),
            _sum(self.preprocessing, other.preprocessing),
            self.preprocessing_rounds + other.preprocessing_rounds,
            {kind: self.demand.get(kind, 0) + other.demand.get(kind, 0) for kind in kinds},
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(
            self.rounds * times,
            tuple(b * times for b in self.bytes),
            tuple(b * times for b in self.preprocessing),
            self.preprocessing_rounds * times,
            {kind: count * times for kind, count in self.demand.items()},
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
