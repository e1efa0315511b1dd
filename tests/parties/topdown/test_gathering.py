"""Nobody is sent to a meeting that somebody else does not come to."""

from hedgerow.parties.topdown.gathering import Gathering

GROUP = ("alder", "birch", "cedar")


def gathering(*here: str) -> tuple[Gathering, dict[str, object]]:
    made = Gathering()
    made.renew(GROUP)
    return made, {name: made.come(name) for name in here}


def test_the_question_is_handed_out_when_all_are_there() -> None:
    made, tickets = gathering("alder", "birch", "north")
    assert not made.complete()
    assert [made.waits(name) for name in (*GROUP, "north")] == [True, True, False, False]
    tickets["cedar"] = made.come("cedar")
    assert made.complete()
    made.begin()
    assert not made.complete()
    assert all(made.take(name, tickets[name]) for name in GROUP)
    # Once.
    assert not made.take("alder", tickets["alder"])
    assert made.at_work == set(GROUP)


def test_of_two_requests_the_newer_one_counts() -> None:
    made, tickets = gathering(*GROUP)
    newer = made.come("birch")
    assert not made.holds("birch", tickets["birch"])
    made.leave("birch", tickets["birch"])
    assert made.complete()
    made.begin()
    assert not made.take("birch", tickets["birch"])
    assert made.take("birch", newer)


def test_who_leaves_is_waited_for_again() -> None:
    made, tickets = gathering(*GROUP)
    made.leave("cedar", tickets["cedar"])
    assert not made.complete()
    assert not made.waits("cedar")


def test_who_comes_back_is_not_at_work_any_more() -> None:
    made, tickets = gathering(*GROUP)
    made.begin()
    for name in GROUP:
        made.take(name, tickets[name])
        made.leave(name, tickets[name])
    for name in ("alder", "birch"):
        made.come(name)
    assert made.at_work == {"cedar"}
    assert not made.complete()
    made.come("cedar")
    assert made.complete()


def test_the_next_question_begins_anew() -> None:
    made, tickets = gathering(*GROUP)
    made.begin()
    made.take("alder", tickets["alder"])
    made.renew(GROUP)
    assert made.at_work == {"alder"}
    made.renew(())
    assert made.at_work == set()
    assert not made.complete()
    assert not made.waits("birch")
