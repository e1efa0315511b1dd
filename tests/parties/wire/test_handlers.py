"""Payload is read whole or block by block, and verbs say what they are."""

import io
import time
from typing import Annotated

import pytest
from pydantic import Field

from hedgerow.errors import Code
from hedgerow.net.channel import MAX_KEY_BYTES
from hedgerow.parties.wire.handlers import (
    Caller,
    Incoming,
    NoFields,
    RequestFields,
    ServiceLimits,
    Verb,
    declared_verbs,
    verb,
)
from hedgerow.parties.wire.patience import Deadline, Rate
from hedgerow.parties.wire.requests import Fields
from tests.parties.wire.parties_calls import echo, refuses


def test_time_is_earned_by_bytes_and_not_saved_up() -> None:
    rate = Rate(2.0, 100)
    rate.count(1000, 1.0)
    assert rate.left() == 2.0
    rate.count(50, 1.5)
    assert rate.left() == pytest.approx(1.0)
    rate.count(10, 1.5)
    assert rate.left() < 0
    deadline = Deadline(0.1)
    assert deadline.left() <= 0.1
    assert Deadline(float("inf")).left() < float("inf")


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_payload_in_any_blocks(size: int) -> None:
    data = bytes(range(256)) * 100
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    incoming = Incoming(len(data), lambda: next(blocks))
    assert incoming.read(10) == data[:10]
    assert incoming.read(0) == b""
    view = memoryview(bytearray(20))
    assert incoming.read_into(view) == 20
    assert view == data[10:30]
    file = io.BytesIO()
    assert incoming.save(file) == len(data) - 30
    assert file.getvalue() == data[30:]
    assert incoming.left == 0
    assert (incoming.read(), incoming.read(5), incoming.save(file)) == (b"", b"", 0)


def test_payload_that_ends_early() -> None:
    blocks = iter([b"12345"])

    def source() -> bytes:
        for block in blocks:
            return block
        raise Code.REQUEST_CUT_OFF.error(found="the end")

    incoming = Incoming(10, source)
    assert incoming.read(5) == b"12345"
    refuses(Code.REQUEST_CUT_OFF, incoming.read)
    assert incoming.left == 5


@pytest.mark.parametrize("largest", [-1, MAX_KEY_BYTES + 1])
def test_payloads_stay_within_one_key_of_tls(largest: int) -> None:
    with pytest.raises(ValueError, match="largest"):
        Verb(("owner",), echo, largest=largest)


def test_by_default_a_verb_takes_nothing() -> None:
    made = Verb(("owner",), echo)
    assert (made.largest, made.fields, made.expects) == (0, NoFields, None)
    limits = ServiceLimits()
    assert limits.per_member < limits.members


class Wanted(RequestFields):
    """Some."""

    n: Annotated[int, Field(ge=0)]
    wait: float = 1.0


class Answers:
    @verb("count-up", ("site",), largest=9, expects="check", twice="so.")
    def count(self, fields: Wanted) -> tuple[Fields, None]:
        """Count."""
        return {"n": fields.n + 1}, None

    def check(self, caller: Caller, fields: Wanted, length: int) -> None:
        raise Code.BAD_NAME.error(found="no")


def test_what_a_class_declares() -> None:
    for of in (Answers, Answers()):
        (found,) = declared_verbs(of).values()
        assert list(declared_verbs(of)) == ["count-up"]
        assert (found.roles, found.fields, found.largest) == (("site",), Wanted, 9)
        assert (found.twice, found.about) == ("so.", "Count.")
    caller = Caller("a", "site")
    assert found.function(caller, Wanted(n=1), Incoming(0, bytes)) == ({"n": 2}, None)
    refuses(Code.BAD_NAME, lambda: found.expects(caller, Wanted(n=1), 0))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": "1"},
        {"n": True},
        {"n": 1.0},
        {"n": -1},
        {"n": None},
        {"n": 1, "wait": "1"},
        {"n": 1, "wait": float("nan")},
        {"n": 1, "more": 1},
    ],
)
def test_fields_are_checked_strictly(fields: dict) -> None:
    refuses(Code.BAD_REQUEST, lambda: Wanted.model_validate(fields))
    assert Wanted.model_validate({"n": 1, "wait": 2}).wait == 2.0


def test_a_deadline_passes() -> None:
    deadline, begun = Deadline(0.01), time.monotonic()
    while deadline.left() > 0:
        assert time.monotonic() - begun < 20
