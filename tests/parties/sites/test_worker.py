"""The thread of a site: order, faults that do not end it, and names in place of numbers."""

import threading
from types import SimpleNamespace
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.worker import Worker, with_names
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from tests.parties.sites.site_town import SERVERS, SITES, make_job, until


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
    worker = Worker(
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
    worker.inbox.arrived("observatory", "line", 0, payload)
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
