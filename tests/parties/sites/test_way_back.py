"""The news that a question has ended goes back as the question came, once, and names nobody."""

import pytest

from hedgerow.errors import Code
from hedgerow.parties.sites import way_back as site_way_back
from hedgerow.parties.sites.way_back import WayBack, veiled


def test_the_first_time_counts_and_once_is_enough() -> None:
    way = WayBack()
    way.came(7, 2)
    # Further down its path the question comes by again.
    way.came(7, 1)
    assert way.take(7) == 2
    assert way.take(7) is None
    way.came(7, 1)
    assert way.take(7) is None
    assert way.take(8) is None


def test_news_that_is_sent_in_a_circle_ends() -> None:
    ways = [WayBack(), WayBack()]
    ways[0].came(1, 1)
    ways[1].came(1, 0)
    at, steps = 0, 0
    while (after := ways[at].take(1)) is not None:
        at, steps = after, steps + 1
    assert steps == 2


def test_old_questions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_way_back, "MOST_CALLS", 3)
    way = WayBack()
    for call in range(5):
        way.came(call, call + 10)
    assert [way.take(call) for call in range(5)] == [None, None, 12, 13, 14]


def test_only_the_kind_of_a_fault_is_told() -> None:
    one = veiled(Code.UNKNOWN_NODE.error(found="the token S2L4"))
    other = veiled(Code.UNKNOWN_NODE.error(found="the token S1L9", fix="look at the club"))
    assert one.code is Code.UNKNOWN_NODE
    assert str(one) == str(other)
    assert one.party is None
