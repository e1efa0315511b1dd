import math

from hedgerow.parties.topdown.deadlines import Deadlines
from hedgerow.parties.topdown.gathering import Gathering
from hedgerow.parties.topdown.job import TopDownTimeouts

GROUP = ("alder", "birch")


def made() -> tuple[Deadlines, Gathering]:
    gathering = Gathering()
    return Deadlines(TopDownTimeouts(join=100.0, answer=10.0), gathering), gathering


def test_an_owner_has_time_to_come_and_then_to_answer() -> None:
    deadlines, _ = made()
    assert deadlines.asked({"north": b"1"}, 5.0) == ["north"]
    assert deadlines.of("north") == 105.0
    deadlines.seen("north", 40.0)
    deadlines.seen("north", 45.0)
    assert deadlines.of("north") == 50.0
    # The same question again takes no more time; another one does.
    assert deadlines.asked({"north": b"1"}, 60.0) == []
    assert deadlines.of("north") == 50.0
    assert deadlines.asked({"north": b"2"}, 60.0) == ["north"]
    assert deadlines.of("north") == 70.0


def test_who_waits_for_the_others_is_not_late() -> None:
    deadlines, gathering = made()
    gathering.renew(GROUP)
    deadlines.asked(dict.fromkeys(GROUP, b"1"), 0.0)
    ticket = gathering.come("alder")
    deadlines.seen("alder", 3.0)
    assert deadlines.of("alder") == math.inf
    assert deadlines.of("birch") == 100.0
    deadlines.seen("birch", 7.0)
    # It was there and is gone: it may come back for as long as it may take to come at all.
    assert deadlines.of("birch") == 107.0
    gathering.come("birch")
    gathering.begin()
    assert gathering.take("alder", ticket)
    gathering.leave("alder", ticket)
    deadlines.asked(dict.fromkeys(GROUP, b"2"), 20.0)
    assert deadlines.of("alder") == 30.0
