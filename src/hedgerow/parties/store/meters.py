"""`RunMeter`: what a party has sent in a run, in all of its attempts."""

from __future__ import annotations

import json
from typing import Any, Literal

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.meter import Reading, Traffic
from hedgerow.parties.store.database import Store


class RunMeter:
    """What one party has sent in a run, for one of its attempts.

    A row of the party's store is a meter (`hedgerow.net.meter.Reading`) of all attempts together,
    with the sums of each under ``attempts`` and those of each stage under ``stages``. It is written
    whenever a stage is kept, so an attempt whose process is killed counts as far as its last stage.
    """

    def __init__(self, store: Store, run: str, attempt: int) -> None:
        self._store, self._run, self._attempt = store, run, attempt
        self._before = read_meter(store, run)
        self._attempts = sums_of(store, run, "attempts")
        self._written = Traffic()
        self._stages = {row.pop("stage"): Traffic(**row) for row in sums_of(store, run, "stages")}

    def write(self, reading: Reading, stage: str = "") -> None:
        """Write what this attempt has sent so far, added to what came before it.

        `stage` is the one that was kept just now; what came since the last one is of no stage.
        """
        own = _total(reading)
        every = reading if self._before is None else add_readings(self._before, reading)
        attempts = [*self._attempts, {"attempt": self._attempt, **own._asdict()}]
        known = self._stages.get(stage, Traffic())
        self._stages[stage] = known.plus(own.minus(self._written))
        self._written = own
        stages = [{"stage": name, **sent._asdict()} for name, sent in self._stages.items()]
        document = {**json.loads(every.to_json()), "attempts": attempts, "stages": stages}
        with self._store.transaction("meter") as made:
            made.put("meters", {"run": self._run, "reading": json.dumps(document)})


def read_meter(store: Store, run: str) -> Reading | None:
    """Return what this party has sent in a run, step by step; None if it has sent nothing."""
    text = _text(store, run)
    return None if text is None else Reading.from_json(text)


def sums_of(store: Store, run: str, by: Literal["attempts", "stages"]) -> list[dict[str, Any]]:
    """Return the sums of every attempt at a run, or of every stage of it, in order.

    What is of no stage has the name ``""``. Meters of earlier versions have attempts alone.
    """
    text = _text(store, run)
    if text is None:
        return []
    return list(jsonfile.loads(text, Code.BAD_METER).get(by, ()))


def _text(store: Store, run: str) -> str | None:
    with store.snapshot() as made:
        found = made.row("meters", run=run)
    return None if found is None else str(found["reading"])


def add_readings(before: Reading, after: Reading) -> Reading:
    """Add what the same parties have sent in two sessions, step by step."""
    keys = dict.fromkeys([*before.traffic, *after.traffic])
    traffic = {key: before.at(*key).plus(after.at(*key)) for key in keys}
    return Reading(sorted({*before.parties, *after.parties}), traffic)


def _total(reading: Reading) -> Traffic:
    total = Traffic()
    for party in reading.parties:
        total = total.plus(reading.total(party))
    return total
