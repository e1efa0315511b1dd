"""One JSON object a line, with where a failure was and not what it said."""

import json
import logging
import sys

from hedgerow.parties.wire.logs import JsonLines


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
