"""`RunMeter`: what a party has sent in a run, in all of its attempts."""

from __future__ import annotations

import json
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.net.meter import Reading, Traffic
from hedgerow.parties.store.database import Store


class RunMeter:
    """What one party has sent in a run, for one of its attempts.

    A row of the party's store is a meter (`hedgerow.net.meter.Reading`) of all attempts together,
    with the sums of each under ``attempts``. It is written whenever a stage is kept, so an attempt
    whose process is killed counts as far as its last stage.
    """

    def __init__(self, store: Store, run: str, attempt: int) -> None:
        self._store, self._run, self._attempt = store, run, attempt
        self._before = read_meter(store, run)
        self._attempts = attempt_sums(store, run)

    def write(self, reading: Reading) -> None:
        """Write what this attempt has sent so far, added to what came before it."""
        own = _total(reading)._asdict()
        every = reading if self._before is None else add_readings(self._before, reading)
        attempts = [*self._attempts, {"attempt": self._attempt, **own}]
        document = {**json.loads(every.to_json()), "attempts": attempts}
        with self._store.transaction("meter") as made:
            made.put("meters", {"run": self._run, "reading": json.dumps(document)})


def read_meter(store: Store, run: str) -> Reading | None:
    """Return what this party has sent in a run, step by step; None if it has sent nothing."""
    text = _text(store, run)
    return None if text is None else Reading.from_json(text)


def attempt_sums(store: Store, run: str) -> list[dict[str, Any]]:
    """Return the sums of every attempt at a run, in order."""
    text = _text(store, run)
    if text is None:
        return []
    return list(jsonfile.loads(text, Code.BAD_METER)["attempts"])


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
