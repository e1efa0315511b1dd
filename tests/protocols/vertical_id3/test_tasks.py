"""Tasks of a site: sending, waiting, side by side, and messages that nobody waits for."""

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.messages import GainReply, Message, Ready, to_bytes
from hedgerow.protocols.vertical_id3.tasks import All, Desk, Outgoing, Send, Task, Wait


def asking(call: int, to: int) -> Task[float]:
    yield Send(to, Ready(call))
    ((sender, reply),) = yield Wait(call, GainReply)
    assert sender == to
    return reply.gain


def both() -> Task[list[float]]:
    return (yield All((asking(1, 1), asking(2, 2))))


def no_handler(sender: int, message: Message) -> None:
    return None


def test_tasks_side_by_side_keep_their_order() -> None:
    desk, done = Desk(0, 3, no_handler), []
    assert desk.start(both(), done.append) == [
        Outgoing(1, to_bytes(Ready(1))),
        Outgoing(2, to_bytes(Ready(2))),
    ]
    assert not desk.idle
    assert desk.receive(2, to_bytes(GainReply(2, 0.25))) == []
    assert done == []
    desk.receive(1, to_bytes(GainReply(1, 0.5)))
    assert done == [[0.5, 0.25]]
    assert desk.idle


def test_no_tasks_side_by_side_end_at_once() -> None:
    def none() -> Task[list[float]]:
        return (yield All(()))

    done: list[list[float]] = []
    Desk(0, 2, no_handler).start(none(), done.append)
    assert done == [[]]


def test_messages_to_oneself_need_no_wire() -> None:
    def handler(sender: int, message: Message) -> Task[None] | None:
        return answer(sender, message) if isinstance(message, Ready) else None

    def answer(sender: int, message: Message) -> Task[None]:
        yield Send(sender, GainReply(message.call, 1.0))

    done: list[float] = []
    assert Desk(0, 2, handler).start(asking(1, 0), done.append) == []
    assert done == [1.0]


@pytest.mark.parametrize("sender", [-1, 0, 2, 9])
def test_only_other_sites_of_the_run_are_heard(sender: int) -> None:
    with pytest.raises(HedgerowError, match="no other site") as caught:
        Desk(0, 2, no_handler).receive(sender, to_bytes(Ready(1)))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


def test_what_nobody_waits_for_is_refused_unless_it_may_be_early() -> None:
    with pytest.raises(HedgerowError, match="nobody waits for"):
        Desk(0, 2, no_handler).receive(1, to_bytes(Ready(1)))
    desk = Desk(0, 2, no_handler, early=(Ready,))
    desk.receive(1, to_bytes(Ready(7)))
    assert not desk.idle

    def wait() -> Task[int]:
        found = yield Wait(7, Ready)
        return len(found)

    done: list[int] = []
    desk.start(wait(), done.append)
    assert done == [1]
    assert desk.idle
