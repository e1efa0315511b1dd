"""What a coordinator remembers beside the protocol: written and read without loss, and bounded."""

import pytest
from parties_calls import refuses

from hedgerow.errors import Code
from hedgerow.parties.topdown_record import Record


def full() -> Record:
    record = Record()
    record.sent("north", 10)
    record.heard("north", "a" * 64, "b" * 64, 25, private=False)
    record.happened("lost", "south", 3, "no answer in time")
    record.out["west"] = "H822 nothing"
    record.told.append("north")
    return record


def test_it_is_read_as_it_was_written() -> None:
    record, state = Record.unpack(full().pack(b"line\nand\nlines"))
    assert record == full()
    assert state == b"line\nand\nlines"
    assert record.octets == 35
    assert record.last("north") == ("a" * 64, "b" * 64)
    assert record.last("south") is None


@pytest.mark.parametrize("data", [b"", b"{}\nx", b"[]\n", b'{"version":1}\n', b"\xff\n"])
def test_anything_else_is_refused(data: bytes) -> None:
    refuses(Code.JOURNAL_DAMAGED, lambda: Record.unpack(data))
    other = full().pack(b"").replace(b'"version":1', b'"version":2')
    refuses(Code.JOURNAL_DAMAGED, lambda: Record.unpack(other))


def test_nobody_can_fill_it() -> None:
    record = Record()
    for number in range(1500):
        record.happened("refused", "north", number, "x" * 10_000)
        record.happened("refused", "north", number, "x" * 10_000)
    assert len(record.events) == 1000
    assert len(record.pack(b"")) < 1_000_000
