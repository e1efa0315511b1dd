"""What parties sent, step by step: rounds, payload bytes, wire bytes, seconds.

Payload is the bytes of the arrays or of mail; wire bytes add frames and TLS records, not TCP/IP
headers. Rounds are those of lock-step. They and their bytes are public: they follow from plans
alone. The seconds of an exchange begin where the one before it ended: what a party computes for it
counts, and so does waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hedgerow.errors import Code

FORMAT = "hedgerow-meter/1"


class Traffic(NamedTuple):
    """Sums for one party; differences may be taken."""

    rounds: int = 0
    payload: int = 0
    wire: int = 0
    waiting: float = 0.0
    seconds: float = 0.0

    def plus(self, other: Traffic) -> Traffic:
        """Add field by field."""
        return Traffic(
            self.rounds + other.rounds,
            self.payload + other.payload,
            self.wire + other.wire,
            self.waiting + other.waiting,
            self.seconds + other.seconds,
        )

    def minus(self, other: Traffic) -> Traffic:
        """Subtract field by field."""
        return Traffic(
            self.rounds - other.rounds,
            self.payload - other.payload,
            self.wire - other.wire,
            self.waiting - other.waiting,
            self.seconds - other.seconds,
        )


_NOTHING = Traffic()


class Reading:
    """The state of a meter at one moment, or the difference of two."""

    def __init__(self, parties: Sequence[int], traffic: dict[tuple[str, int], Traffic]) -> None:
        self.parties = tuple(parties)
        self.traffic = traffic

    @property
    def steps(self) -> list[str]:
        """Names of the steps, in the order of their first use."""
        return list(dict.fromkeys(step for step, _ in self.traffic))

    def at(self, step: str, party: int) -> Traffic:
        """Traffic of one step at one party."""
        return self.traffic.get((step, party), _NOTHING)

    def total(self, party: int) -> Traffic:
        """Traffic of all steps at one party."""
        return _sum(t for (_, p), t in self.traffic.items() if p == party)

    @property
    def rounds(self) -> int:
        """Rounds; every party takes part in all of them, by waiting if not by sending."""
        return max((self.total(party).rounds for party in self.parties), default=0)

    @property
    def payload(self) -> tuple[int, ...]:
        """Payload bytes that each of `parties` sent."""
        return tuple(self.total(party).payload for party in self.parties)

    @property
    def wire(self) -> tuple[int, ...]:
        """Wire bytes that each of `parties` sent."""
        return tuple(self.total(party).wire for party in self.parties)

    @property
    def waiting(self) -> tuple[float, ...]:
        """Seconds that each of `parties` waited."""
        return tuple(self.total(party).waiting for party in self.parties)

    @property
    def seconds(self) -> tuple[float, ...]:
        """Seconds that each of `parties` took, waiting among them."""
        return tuple(self.total(party).seconds for party in self.parties)

    def __repr__(self) -> str:
        parties = f"{len(self.parties)} {'party' if len(self.parties) == 1 else 'parties'}"
        sent = f"{sum(self.payload) / 1e6:,.3f} MB of payload, {sum(self.wire) / 1e6:,.3f} MB sent"
        return f"<Reading of {parties}: {self.rounds:,} rounds, {sent}>"

    def __sub__(self, earlier: Reading) -> Reading:
        """Return what happened after an earlier reading of the same meter."""
        rest = {
            key: now.minus(earlier.traffic.get(key, _NOTHING)) for key, now in self.traffic.items()
        }
        return Reading(self.parties, {key: t for key, t in rest.items() if t != _NOTHING})

    def __or__(self, other: Reading) -> Reading:
        """Join the readings of different parties of one session."""
        both = set(self.parties) & set(other.parties)
        if both:
            raise Code.BAD_METER.error(
                expected="readings of different parties", found=f"parties {sorted(both)} in both"
            )
        return Reading(sorted(self.parties + other.parties), self.traffic | other.traffic)

    def without(self, *steps: str) -> Reading:
        """Leave out some steps, such as mail with others."""
        kept = {at: sent for at, sent in self.traffic.items() if at[0] not in steps}
        return Reading(self.parties, kept)

    def only(self, *steps: str) -> Reading:
        """Keep some steps, such as those of preprocessing."""
        return self.without(*(step for step in self.steps if step not in steps))

    def table(self) -> list[dict[str, Any]]:
        """One row for each step and party, for printing."""
        return [
            {"step": step, "party": party, **traffic._asdict()}
            for (step, party), traffic in self.traffic.items()
        ]

    def to_json(self) -> str:
        """Write as JSON."""
        return json.dumps({"format": FORMAT, "parties": self.parties, "traffic": self.table()})

    @classmethod
    def from_json(cls, text: str) -> Reading:
        """Read what `to_json` wrote."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise Code.BAD_METER.error(found=f"format {data['format']!r}")
            parties = [int(p) for p in data["parties"]]
            traffic = {
                (str(row["step"]), int(row["party"])): Traffic(
                    int(row["rounds"]),
                    int(row["payload"]),
                    int(row["wire"]),
                    float(row["waiting"]),
                    # Meters of earlier versions have none.
                    float(row.get("seconds", 0.0)),
                )
                for row in data["traffic"]
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, Code.BAD_METER.spec.raises):
                raise
            raise Code.BAD_METER.error(found=f"{type(error).__name__}: {error}") from None
        return cls(parties, traffic)


class Meter:
    """Count what the local parties send, and the seconds between, by a clock."""

    def __init__(self, parties: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
        self.parties = tuple(parties)
        self._traffic: dict[tuple[str, int], Traffic] = {}
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Count seconds from here on: what came before is no part of a step."""
        self._ended = dict.fromkeys(self.parties, self._clock())

    def record(
        self,
        step: str,
        party: int,
        *,
        rounds: int = 1,
        payload: int = 0,
        wire: int = 0,
        waiting: float = 0.0,
    ) -> None:
        """Add one round of one party, or mail, which is none."""
        now = self._clock()
        spent = Traffic(rounds, payload, wire, waiting, now - self._ended.get(party, now))
        self._ended[party] = now
        self._traffic[step, party] = self._traffic.get((step, party), _NOTHING).plus(spent)

    def snapshot(self) -> Reading:
        """Read the meter; subtract an earlier reading to measure a part of a program."""
        return Reading(self.parties, dict(self._traffic))

    def since(self, earlier: Reading) -> Reading:
        """Return what happened after an earlier reading."""
        return self.snapshot() - earlier


def _sum(parts: Iterable[Traffic]) -> Traffic:
    total = _NOTHING
    for part in parts:
        total = total.plus(part)
    return total
