"""Messages of a run: in order, once each, also when somebody is away; and the thread of a site."""

import random
import struct
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.post import SiteInbox, SitePost, SiteWorker, lost_party, with_names
from hedgerow.parties.sites.service import MessageFields
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from tests.parties.sites.site_town import SERVERS, SITES, make_job, until
from tests.parties.wire.parties_calls import refuses


def packed(*messages: bytes) -> bytes:
    return b"".join(struct.pack("<Q", len(data)) + data for data in messages)


def taken() -> tuple[SiteInbox, list[tuple[str, bytes]]]:
    found: list[tuple[str, bytes]] = []
    return SiteInbox(lambda sender, data: found.append((sender, data))), found


class BadLine:
    """Other sites behind a line that is cut before or after a request, as coins fall."""

    everybody = ("observatory",)
    job = make_job()

    def __init__(self, inbox: SiteInbox, seed: int = 1) -> None:
        self.inbox, self.coins, self.cuts = inbox, random.Random(seed), 0
        self.error: HedgerowError | None = None

    def call(self, name: str, verb: str, fields: dict[str, Any], payload: bytes) -> None:
        assert (name, verb, fields["tree"]) == ("observatory", "site-message", "t")
        if self.error is not None:
            raise self.error
        coin = self.coins.random()
        if coin > 0.3:
            self.inbox.receive("club", fields["line"], fields["first"], payload)
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
    post = SitePost(line, {"tree": "t"}, 20.0, lambda *_: pytest.fail("given up"))  # type: ignore[arg-type]
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
    post = SitePost(line, {"tree": "t"}, 0.2, lambda *what: failed.append(what))  # type: ignore[arg-type]
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
    post = SitePost(line, {"tree": "t"}, 20.0, lambda *_: pytest.fail("given up"))  # type: ignore[arg-type]
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
    inbox.receive("club", "a", 0, packed(b"x", b"", b"y"))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.receive("club", "a", 4, packed(b"z")))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.receive("club", "b", 1, packed(b"z")))
    refuses(Code.WRONG_RUN_STATE, lambda: inbox.receive("office", "a", 3, packed(b"z")))
    for payload in (b"abc", packed(b"x")[:-1], packed(b"x") + b"1234567", b"\xff" * 9):
        refuses(Code.BAD_REQUEST, lambda data=payload: inbox.receive("club", "a", 3, data))
    said = {"run": "r", "hash": "h", "tree": "ab" * 16, "what": "grow"}
    for line, first in ((1, 3), ("a", True), ("a", -1), ("a", "3"), (None, 3)):
        at = said | {"line": line, "first": first}
        refuses(Code.BAD_REQUEST, lambda at=at: MessageFields.model_validate(at))
    assert MessageFields.model_validate(said | {"line": "a", "first": 3}).first == 3
    inbox.receive("club", "a", 1, packed(b"", b"y", b"z"))
    assert [data for _, data in found] == [b"x", b"", b"y", b"z"]


def test_two_copies_of_a_request_at_once() -> None:
    inbox, found = taken()
    payload = packed(*(b"%d" % i for i in range(1000)))
    threads = [
        threading.Thread(target=inbox.receive, args=("club", "a", 0, payload)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [data for _, data in found] == [b"%d" % i for i in range(1000)]


class Echo:
    """Stands where a program does: says what it hears to the next one, or falls over when told."""

    site = SimpleNamespace(job=make_job().protocol_job())

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        if data == b"refuse":
            raise Code.SITE_CONTRADICTS.error(found=f"a set of site {sender}")
        if data == b"break":
            raise KeyError("a defect")
        return [Outgoing(2, data)]


class Box:
    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes]] = []

    def send(self, name: str, data: bytes) -> None:
        self.sent.append((name, data))


def test_what_arrives_is_done_in_order_whatever_happens() -> None:
    box, failed, done = Box(), [], []
    worker = SiteWorker(
        SITES,
        Echo(),  # type: ignore[arg-type]
        box,  # type: ignore[arg-type]
        lambda error, sender, data: failed.append((error, sender, data)),
        lambda: done.append(worker.busy),
    )
    gate = threading.Event()

    def wait() -> list[Outgoing]:
        assert gate.wait(20)
        return []

    worker.do(wait)
    payload = b"".join(
        len(data).to_bytes(8, "little") + data for data in (b"a", b"refuse", b"b", b"break", b"c")
    )
    worker.inbox.receive("observatory", "line", 0, payload)
    assert worker.busy
    assert box.sent == []
    gate.set()
    until(lambda: len(done) == 6)
    assert box.sent == [("office", b"a"), ("office", b"b"), ("office", b"c")]
    assert not worker.busy
    assert done[-1] is False
    (refused, sender, data), (broken, *_) = failed
    assert (refused.code, sender, data) == (Code.SITE_CONTRADICTS, "observatory", b"refuse")
    assert refused.found == "a set of site observatory"
    # A defect says nothing of what it was about: that may be data.
    assert broken.code is Code.SERVICE_FAILED
    assert "defect" not in str(broken)
    worker.stop()


def test_names() -> None:
    error: Any = Code.SITE_CONTRADICTS.error(
        expected="site 2 to have 3", found="site 0 and site 9", fix="ask site 1"
    )
    error.party = "office"
    named = with_names(error, SITES, 3)
    assert isinstance(named, HedgerowError)
    assert (named.expected, named.found) == ("site office to have 3", "site club and site 9")
    assert (named.fix, named.party) == ("ask site observatory", "office")
    error = Code.SITE_CONTRADICTS.error(
        expected="server 0", found="party 4 and party 1", fix="ask server 3"
    )
    named = with_names(error, (*SITES, *SERVERS), 3)
    assert (named.expected, named.found) == ("server alder", "server birch and site observatory")
    assert named.fix == "ask server 3"


JOB = make_job()


@pytest.mark.parametrize(
    "code", [Code.SERVICE_UNREACHABLE, Code.REQUEST_CUT_OFF, Code.SERVICE_STOPPING]
)
def test_a_site_that_is_not_reached_is_lost(code: Code) -> None:
    error = lost_party("office", code.error(found="Connection refused"), JOB)
    assert error.code is Code.SITE_LOST
    assert error.found == "office is not reached: Connection refused"


def test_a_site_that_knows_nothing_of_the_attempt_was_started_again() -> None:
    said = Code.WRONG_RUN_STATE.error(found="nothing")
    # What this site itself says of its state is another matter.
    assert lost_party("office", said, JOB) is said
    said.party = "office"
    assert "office was started again" in lost_party("office", said, JOB).found


def test_what_a_site_refuses_for_a_reason_stays() -> None:
    said = Code.SITE_CONTRADICTS.error(found="a set of site club")
    said.party = "office"
    assert lost_party("office", said, JOB) is said
