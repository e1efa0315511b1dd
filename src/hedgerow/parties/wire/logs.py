"""Logs of a party: one JSON object a line, about what happened and never about its content."""

from __future__ import annotations

import datetime
import json
import logging
import threading
import time
import traceback
from typing import Any

Event = dict[str, Any]


class JsonLines(logging.Formatter):
    """Write records as JSON lines.

    A record with an `event` (``extra={"event": {...}}``) becomes its fields, any other its message.
    Of an exception, its type and where it came from are written, not its words: they may quote
    data.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, without its end."""
        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: Event = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        event = getattr(record, "event", None)
        line |= event if isinstance(event, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = kind.__qualname__
            line["where"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(trace)
            ]
        return json.dumps(line, separators=(",", ":"), default=str)


class Throttle:
    """Let a few through in every minute and count the rest, so that strangers fill no disk."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._lock = threading.Lock()
        self._minute, self._passed, self._held = -1, 0, 0

    def passes(self) -> int | None:
        """Return how many were held back before this one, or None to hold this one back."""
        with self._lock:
            minute = int(time.monotonic() // 60)
            if minute != self._minute:
                self._minute, self._passed = minute, 0
            if self._passed >= self.per_minute:
                self._held += 1
                return None
            self._passed += 1
            held, self._held = self._held, 0
            return held
