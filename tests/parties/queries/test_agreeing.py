"""What servers say to each other about queries, and what they make of it."""

from itertools import product

import pytest

from hedgerow.errors import Code
from hedgerow.parties.queries.agreeing import (
    DONE,
    HELD,
    HERE,
    MISSING,
    ONLY_HELD,
    PRINT_BYTES,
    Announcement,
    Row,
    announcement_bytes,
    verdict,
)
from hedgerow.parties.store.query_index import Key
from tests.parties.wire.parties_calls import refuses

MEMBERS = ["alder", "ann", "bob"]
ONE, TWO = b"1" * 16, b"2" * 16


def test_announcements_have_one_size_and_come_back() -> None:
    empty = Announcement.nothing(ONE)
    keys = (Key("bob", "ab" * 16), Key("ann", "cd" * 16))
    full = Announcement(TWO, "distribution", "m" * 63, b"t" * 16, keys)
    for said in (empty, full):
        data = said.pack(MEMBERS, 4)
        assert len(data) == announcement_bytes(4)
        assert Announcement.parse(data, MEMBERS) == said


@pytest.mark.parametrize(("at", "octet"), [(16, 9), (17, 4), (18, 1), (20, 47), (100, 7)])
def test_announcements_that_nobody_writes(at: int, octet: int) -> None:
    data = bytearray(
        Announcement(ONE, "class", "m", ONE, (Key("ann", "ab" * 16),)).pack(MEMBERS, 4)
    )
    data[at] = octet
    refuses(Code.BAD_FRAME, lambda: Announcement.parse(bytes(data), MEMBERS))


def test_a_query_is_announced_once() -> None:
    twice = (Key("ann", "ab" * 16), Key("bob", "ab" * 16), Key("ann", "ab" * 16))
    data = Announcement(ONE, "class", "m", ONE, twice).pack(MEMBERS, 4)
    error = refuses(Code.BAD_FRAME, lambda: Announcement.parse(data, MEMBERS))
    assert "twice" in error.found
    data = Announcement(ONE, "class", "m", ONE, twice[:2]).pack(MEMBERS, 4)
    assert Announcement.parse(data, MEMBERS).keys == twice[:2]


def test_rows_come_back() -> None:
    rows = [Row(HERE, ONE, 70_000, 2 * TWO), Row(DONE, TWO, 1, 2 * ONE)]
    assert Row.parse_all(b"".join(row.pack() for row in rows)) == rows


def test_digests_of_shares_are_long_enough_against_collisions() -> None:
    # Who has sent the shares has drawn them: half of the bits is what protects.
    assert PRINT_BYTES * 8 >= 256
    print_ = bytes(range(PRINT_BYTES))
    (row,) = Row.parse_all(Row(HERE, ONE, 1, print_).pack())
    assert row.print == print_


def rows(*statuses: int, draws=(ONE, ONE, ONE), n=(3, 3, 3)) -> list[Row]:
    return [Row(s, d, k, b"") for s, d, k in zip(statuses, draws, n, strict=True)]


def test_verdicts() -> None:
    assert verdict(rows(HERE, HERE, HERE)) == "run"
    assert verdict(rows(HELD, HERE, HERE)) == "run"
    assert verdict(rows(HELD, HELD, HELD, draws=(ONE, TWO, ONE))) == "run"
    assert verdict(rows(HELD, HELD, HELD)) == "commit"
    assert verdict(rows(DONE, HELD, ONLY_HELD)) == "commit"
    assert verdict(rows(DONE, DONE, DONE)) == "commit"
    assert verdict(rows(DONE, HERE, HERE)) == "lost"
    assert verdict(rows(DONE, HELD, HELD, draws=(ONE, TWO, TWO))) == "lost"
    assert verdict(rows(ONLY_HELD, HERE, HERE)) == "later"
    assert verdict(rows(HERE, MISSING, HERE, n=(3, 0, 3))) == "later"
    assert verdict(rows(HERE, HERE, HERE, n=(3, 4, 3))) == "conflict"


def test_what_may_have_left_is_never_drawn_again() -> None:
    every = (MISSING, HERE, HELD, ONLY_HELD, DONE)
    for statuses in product(every, repeat=3):
        for draws in ((ONE, ONE, ONE), (ONE, TWO, ONE)):
            found = verdict(rows(*statuses, draws=draws))
            if DONE in statuses:
                assert found != "run"
            if found == "run":
                assert set(statuses) <= {HERE, HELD}
            if found == "commit":
                assert set(statuses) <= {HELD, ONLY_HELD, DONE}
                assert len(set(draws)) == 1
