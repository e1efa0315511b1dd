"""Logs of a party: one JSON object a line, about what happened and never about its content."""

from __future__ import annotations

import datetime
import json
import logging
import os
import traceback
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
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


class BoundedLog(WatchedFileHandler):
    """A log of JSON lines, for this user alone, of at most so many bytes and a line.

    Beyond them the file becomes ``NAME.1``, in the place of an older one. One that somebody else
    has rotated is begun anew.
    """

    def __init__(self, path: Path, octets: int) -> None:
        self._octets = octets
        super().__init__(path, encoding="utf-8")
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; what goes wrong on the way is no reason to fail."""
        try:
            if self.stream is not None and self.stream.tell() >= self._octets:
                os.replace(self.baseFilename, f"{self.baseFilename}.1")
        except (OSError, ValueError):
            self.handleError(record)
        super().emit(record)

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return os.fdopen(os.open(self.baseFilename, flags, 0o600), "a", encoding="utf-8")
