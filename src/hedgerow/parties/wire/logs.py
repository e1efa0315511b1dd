"""Logs of a party: one JSON object a line, about what happened and never about its content."""

from __future__ import annotations

import datetime
import json
import logging
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
