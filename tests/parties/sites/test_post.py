"""Messages arrive in order and once, however often connections are cut."""

import random
import struct
import threading
import time
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.post import Inbox, Post
from tests.parties.sites.site_town import make_job
from tests.parties.wire.parties_calls import refuses


def packed(*messages: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(data)) + data for data in messages)


def taken() -> tuple[Inbox, list[tuple[str, bytes]]]:
    found: list[tuple[str, bytes]] = []
    return Inbox(lambda sender, data: found.append((sender, data))), found


class BadLine:
    """Other sites behind a line that is cut before or after a request, as coins fall."""

    everybody = ("observatory",)
    job = make_job()

    def __init__(self, inbox: Inbox, seed: int = 1) -> None:
        self.inbox, self.coins, self.cuts = inbox, random.Random(seed), 0
        self.error: HedgerowError | None = None

    def call(self, name: str, verb: str, fields: dict[str, Any], payload: bytes) -> None:
        assert (name, verb, fields["tree"]) == ("observatory", "site-message", "t")
        if self.error is not None:
            raise self.error
        coin = self.coins.random()
        if coin > 0.3:
            self.inbox.arrived("club", fields["line"], fields["first"], payload)
        if coin < 0.6:
            self.cuts += 1
            raise Code.REQUEST_CUT_OFF.error(found="nothing")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hedgerow.parties.sites.post.PAUSE", 0.001)


def wait_for(reached) -> None:
    end = time.monotonic() + 20
    while not reached() and time.monotonic() < end:
        time.sleep(0.005)
    assert reached()


def test_every_message_once_and_in_order() -> None:
    inbox, found = taken()
    line = BadLine(inbox)
    post = Post(line, {"tree": "t"}, 20.0, lambda *_: pytest.fail("given up"))  # type: ignore[arg-type]
    sent = [b"%d" % i for i in range(300)]
    for i, data in enumerate(sent):
        post.send("observatory", data)
        if i % 10 == 0:
            time.sleep(0.001)
    wait_for(lambda: len(found) >= len(sent))
    post.close()
    assert found == [("club", data) for data in sent]
    assert line.cuts > 5


def test_a_site_that_stays_away_is_given_up_with_what_it_did_not_get() -> None:
    inbox, found = taken()
    line = BadLine(inbox)
    line.error = Code.SERVICE_UNREACHABLE.error(found="nobody")
    failed: list[Any] = []
    post = Post(line, {"tree": "t"}, 0.2, lambda *what: failed.append(what))  # type: ignore[arg-type]
    post.send("observatory", b"lost")
    wait_for(lambda: post.away == ["observatory"] or failed)
    wait_for(lambda: failed)
    assert failed[0][0] == "observatory"
    assert failed[0][1].code is Code.SERVICE_UNREACHABLE
    assert failed[0][2] == [b"lost"]
    # Later ones go on a new line.
    line.error = None
    post.send("observatory", b"later")
    wait_for(lambda: found)
    post.close()
    assert found == [("club", b"later")]


def test_a_receiver_that_was_started_again_gets_a_new_line() -> None:
    inbox, found = taken()
    line = BadLine(inbox, seed=3)
    post = Post(line, {"tree": "t"}, 20.0, lambda *_: pytest.fail("given up"))  # type: ignore[arg-type]
    post.send("observatory", b"one")
    wait_for(lambda: found)
    time.sleep(0.05)
    line.inbox, again = taken()
    post.send("observatory", b"two")
    wait_for(lambda: again)
    post.close()
    assert again == [("club", b"two")]


def test_what_is_refused() -> None:
    inbox, found = taken()
    inbox.arrived("club", "a", 0, packed(b"x", b"", b"y"))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.arrived("club", "a", 4, packed(b"z")))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.arrived("club", "b", 1, packed(b"z")))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.arrived("office", "a", 3, packed(b"z")))
    for payload in (b"abc", packed(b"x")[:-1], packed(b"x") + b"1234567", b"\xff" * 9):
        refuses(Code.BAD_REQUEST, lambda data=payload: inbox.arrived("club", "a", 3, data))
    for line, first in ((1, 3), ("a", True), ("a", -1), ("a", "3"), (None, 3)):
        at = (line, first)
        refuses(Code.BAD_REQUEST, lambda at=at: inbox.arrived("club", *at, packed(b"z")))
    inbox.arrived("club", "a", 1, packed(b"", b"y", b"z"))
    assert [data for _, data in found] == [b"x", b"", b"y", b"z"]


def test_two_copies_of_a_request_at_once() -> None:
    inbox, found = taken()
    payload = packed(*(b"%d" % i for i in range(1000)))
    threads = [
        threading.Thread(target=inbox.arrived, args=("club", "a", 0, payload)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [data for _, data in found] == [b"%d" % i for i in range(1000)]
