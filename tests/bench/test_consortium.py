"""What the benchmark of consortia is made of; its runs are in tests/parties/test_chaos.py."""

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench.__main__ import names
from bench.consortium.audit import audit
from bench.consortium.chaos import kind_of
from bench.consortium.faults import PHASES, Fault
from bench.consortium.life import REQUESTS, ROWS, Outcome
from bench.consortium.links import CUTS, Links
from bench.consortium.parties import OWNER, SERVERS
from bench.consortium.parts import PARTS, QUICK


def test_it_is_found_and_its_helpers_are_not() -> None:
    assert [name for name in names() if name.startswith("consortium")] == ["consortium"]
    assert set(PARTS) == set(QUICK) == {"chaos", "load", "wan"}


@contextlib.contextmanager
def echoing(callers: tuple[str, ...] = ("ann",), delay: float = 0.0) -> Iterator[Any]:
    """Links of callers to a server that says what it hears; yields them and a way to call."""
    with socket.create_server(("127.0.0.1", 0)) as behind, contextlib.ExitStack() as stack:

        def echo(caller: socket.socket) -> None:
            with contextlib.suppress(OSError), caller:
                while data := caller.recv(1 << 16):
                    caller.sendall(data)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = behind.accept()
                    threading.Thread(target=echo, args=(caller,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        port = behind.getsockname()[1]
        links = stack.enter_context(Links({"alder": [port]}, callers, delay))

        def call(who: str = callers[0]) -> socket.socket:
            made = socket.create_connection(("127.0.0.1", links.doors[who, port]), timeout=20)
            return stack.enter_context(made)

        yield links, call


def exchanged(caller: socket.socket, data: bytes) -> bytes:
    found = b""
    caller.sendall(data)
    while len(found) < len(data):
        got = caller.recv(1 << 16)
        if not got:
            break
        found += got
    return found


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_links_hold_bytes_back_in_both_directions(delay: float) -> None:
    with echoing(delay=delay) as (_, call):
        caller = call()
        for data in (b"a", b"b" * 300_000):
            begun = time.monotonic()
            assert exchanged(caller, data) == data
            assert time.monotonic() - begun >= 2 * delay
        caller.shutdown(socket.SHUT_WR)
        assert caller.recv(1) == b""


def test_a_door_to_nobody_closes() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with (
            Links({"alder": [port]}, ["ann"]) as links,
            socket.create_connection(("127.0.0.1", links.doors["ann", port]), timeout=20) as caller,
        ):
            assert caller.recv(1) == b""


def test_a_link_that_is_reset() -> None:
    with echoing(("ann", "bob")) as (links, call):
        ann, bob = call("ann"), call("bob")
        assert exchanged(ann, b"a") == exchanged(bob, b"a") == b"a"
        links.cut("ann", "reset")
        with pytest.raises(ConnectionResetError):
            ann.recv(1)
        # Nobody else's link is.
        assert exchanged(bob, b"b") == b"b"
        with pytest.raises(ConnectionError):
            exchanged(call("ann"), b"c")
        links.mend("ann")
        assert exchanged(call("ann"), b"d") == b"d"


@pytest.mark.parametrize("kind", ["silence", "lost"])
def test_a_link_on_which_nothing_comes(kind: Any) -> None:
    with echoing() as (links, call):
        old = call()
        assert exchanged(old, b"a") == b"a"
        links.cut("alder", kind, "ann")
        new = call()
        for caller in (old, new):
            caller.sendall(b"bc")
            caller.settimeout(0.2)
            with pytest.raises(TimeoutError):
                caller.recv(1)
            caller.settimeout(20)
        links.mend("alder", "ann")
        if kind == "silence":
            assert old.recv(2, socket.MSG_WAITALL) == new.recv(2, socket.MSG_WAITALL) == b"bc"
        else:
            with pytest.raises(ConnectionResetError):
                old.recv(1)
        assert exchanged(call(), b"d") == b"d"


TIMEOUTS = SimpleNamespace(step=8.0, rejoin=20.0)
SPANS: Any = {"upload": 1.0, "training": 8.0, "queries": 2.0}


def drawn(seed: int) -> Fault:
    town: Any = SimpleNamespace(timeouts=TIMEOUTS, analysts=["zoe"])
    links: Any = None
    return Fault(town, links, seed, SPANS)


def test_faults_follow_their_seeds() -> None:
    faults = [drawn(seed) for seed in range(30)]
    assert [str(f) for f in faults] == [str(drawn(seed)) for seed in range(30)]
    for values, expected in (
        ([f.phase for f in faults], PHASES),
        ([f.victim for f in faults], (*SERVERS, OWNER, "zoe")),
        ([f.what for f in faults], ("kill", *CUTS)),
        ([f.role for f in faults], ("server", "owner", "analyst")),
    ):
        assert set(values) == set(expected)
    assert any(f.other for f in faults)
    assert any(f.away > TIMEOUTS.rejoin for f in faults)
    assert all(0 <= f.moment <= SPANS[f.phase] for f in faults)
    assert Counter(map(kind_of, range(30))) == {"exact": 20, "noisy": 10}


class Books:
    """Journals of three servers as an undisturbed run leaves them."""

    def __init__(self) -> None:
        ids = [("zoe", f"{k:032x}", ROWS // REQUESTS) for k in range(REQUESTS)]
        self.paid = {name: Counter({"job:hash": 1}) for name in SERVERS}
        self.lines = {name: ["one", "two"] for name in SERVERS}
        self.queries: dict[str, Any] = {
            name: (Counter(ids), {id: f"draw {id}" for _, id, _ in ids}) for name in SERVERS
        }

    def charges(self, name: str) -> Counter[str]:
        return self.paid[name]

    def ledger(self, name: str, run: str) -> list[str]:
        return ["one", "two"] if run == "model" else self.lines[name]

    def asked(self, name: str, model: str) -> Any:
        return self.queries[name]


def outcome(run: str = "run", **changes: Any) -> Outcome:
    job: Any = SimpleNamespace(hash="hash", run_id=run, model="m")
    labels = {k: ["no"] for k in range(REQUESTS)}
    return Outcome("exact", job=job, **({"labels": labels} | changes))


def lost(found: Books) -> None:
    found.queries["birch"][0].pop(next(iter(found.queries["birch"][0])))


def doubled(found: Books) -> None:
    found.queries["birch"][0][next(iter(found.queries["birch"][0]))] += 1


def drawn_twice(found: Books) -> None:
    found.queries["birch"][1][f"{3:032x}"] = "another"


def unanswered(found: Books) -> None:
    del found.queries["alder"][1][f"{3:032x}"]


def more(found: Books) -> None:
    for name in SERVERS:
        found.queries[name][0]["zoe", "f" * 32, ROWS // REQUESTS] = 1


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.paid["birch"].update(["job:hash"]),
        lambda found: found.paid["birch"].clear(),
        lambda found: found.lines["cedar"].append("three"),
        lambda found: [found.lines[name].pop() for name in SERVERS],
        lost,
        doubled,
        drawn_twice,
        unanswered,
        more,
    ],
)
def test_the_audit_finds_what_is_lost_and_what_is_doubled(change: Any) -> None:
    found: Any = Books()
    assert audit(found, outcome(), outcome("model")) == []
    change(found)
    assert audit(found, outcome(), outcome("model")) != []


def test_the_audit_compares_answers() -> None:
    found: Any = Books()
    other = {k: ["yes"] for k in range(REQUESTS)}
    assert audit(found, outcome(labels=other), outcome("model")) != []
    assert audit(found, outcome(labels={0: ["no"]}), outcome("model")) != []
    # A run that has ended with a number is excused from the rest, not from charges made twice.
    ended = outcome(error="H894", labels={})
    assert audit(found, ended, outcome("model")) == []
    doubled(found)
    assert audit(found, ended, outcome("model")) != []


def test_a_client_that_was_killed_may_have_been_charged_for_what_it_did_not_hear() -> None:
    found: Any = Books()
    more(found)
    assert audit(found, outcome(broken=1), outcome("model")) == []
