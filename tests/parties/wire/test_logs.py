"""One JSON object a line, with where a failure was and not what it said."""

import json
import logging
import sys
from pathlib import Path

from hedgerow.parties.wire.logs import BoundedLog, JsonLines


def line(**attributes: object) -> dict:
    record = logging.LogRecord("n", logging.INFO, "p", 1, "hello %s\n", ("you",), None)
    for name, value in attributes.items():
        setattr(record, name, value)
    text = JsonLines().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_messages_and_events() -> None:
    plain = line()
    assert plain["message"] == "hello you\n"
    assert plain["level"] == "info"
    assert plain["time"].endswith("+00:00")
    event = line(event={"verb": "echo", "bytes": 3})
    assert (event["verb"], event["bytes"]) == ("echo", 3)
    assert "message" not in event


def test_words_of_an_exception_are_left_out() -> None:
    try:
        raise ValueError("share 12345")
    except ValueError:
        found = line(exc_info=sys.exc_info())
    assert found["exception"] == "ValueError"
    assert "test_logs.py" in found["where"][0]
    assert "12345" not in json.dumps(found)


def test_a_log_is_bounded(tmp_path: Path) -> None:
    path, before = tmp_path / "log.jsonl", tmp_path / "log.jsonl.1"
    handler = BoundedLog(path, 1 << 12)
    written = 300
    for k in range(written):
        record = logging.LogRecord("n", logging.INFO, "p", 1, f"line {k}", (), None)
        handler.handle(record)
        longest = len(handler.format(record)) + 1
        assert path.stat().st_size < (1 << 12) + longest
    handler.close()
    assert sorted(one.name for one in tmp_path.iterdir()) == [path.name, before.name]
    assert {one.stat().st_mode & 0o777 for one in (path, before)} == {0o600}
    lines = [*before.read_text().splitlines(), *path.read_text().splitlines()]
    # What is left is the end of it, whole and in order.
    numbers = [int(json.loads(text)["message"].split()[1]) for text in lines]
    assert numbers == list(range(written - len(numbers), written))
    assert len(numbers) < written
    # One that was there goes on.
    again = BoundedLog(path, 1 << 12)
    again.handle(logging.LogRecord("n", logging.INFO, "p", 1, "more", (), None))
    again.close()
    assert len(path.read_text().splitlines()) + len(before.read_text().splitlines()) > len(numbers)
