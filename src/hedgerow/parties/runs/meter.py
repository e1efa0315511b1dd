"""`RunMeter`: what one server has sent in a run, in all of its attempts.

The file ``meter.json`` of a run is a meter (`hedgerow.net.meter.Reading`) of all attempts together,
step by step, and under ``attempts`` the sums of each. It is written whenever a stage is kept, so an
attempt whose process is killed counts as far as its last stage.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from hedgerow.errors import HedgerowError
from hedgerow.net.meter import Reading, Traffic
from hedgerow.parties.store.durable import replacing

_logger = logging.getLogger(__name__)


class RunMeter:
    """The meter file of a run, for one attempt.

    `path`: made if it is not there.
    `attempt`: what the file tells of this one is written anew; the others stay.
    """

    def __init__(self, path: Path, attempt: int) -> None:
        self.path, self.attempt = path, attempt
        self._before: Reading | None = None
        self._attempts: list[dict[str, Any]] = []
        if path.exists():
            try:
                text = path.read_text()
                self._before = Reading.from_json(text)
                self._attempts = list(json.loads(text).get("attempts", ()))
            except (HedgerowError, ValueError, OSError) as error:
                # Nothing depends on it, so no run may fail for it.
                event = {"file": str(path), "found": str(error)}
                _logger.warning("meter", extra={"event": event})

    def write(self, reading: Reading) -> None:
        """Write what this attempt has sent so far, added to what came before it.

        Raises H869 if the disk does not take it.
        """
        own = _total(reading)._asdict()
        every = reading if self._before is None else joined(self._before, reading)
        attempts = [*self._attempts, {"attempt": self.attempt, **own}]
        document = {**json.loads(every.to_json()), "attempts": attempts}
        with replacing(self.path) as file:
            file.write(json.dumps(document).encode())


def joined(before: Reading, after: Reading) -> Reading:
    """Add what the same parties have sent in two sessions, step by step."""
    keys = dict.fromkeys([*before.traffic, *after.traffic])
    traffic = {key: before.at(*key).plus(after.at(*key)) for key in keys}
    return Reading(sorted({*before.parties, *after.parties}), traffic)


def _total(reading: Reading) -> Traffic:
    total = Traffic()
    for party in reading.parties:
        total = total.plus(reading.total(party))
    return total
