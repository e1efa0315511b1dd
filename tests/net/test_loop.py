"""Conversations advance together, and waiting is bounded and counted."""

import math
import os
import time

import pytest

from hedgerow.net.loop import READ, WRITE, Loop, Want


def reader(fd: int, out: list[bytes]):
    yield Want(fd, READ)
    out.append(os.read(fd, 100))


def test_a_conversation_wakes_when_its_bytes_come() -> None:
    ours, theirs = os.pipe()
    out: list[bytes] = []

    def writer():
        yield Want(until=time.monotonic() + 0.02)
        yield Want(theirs, WRITE)
        os.write(theirs, b"now")

    loop = Loop()
    loop.start(reader(ours, out))
    loop.start(writer())
    assert not loop.idle
    assert loop.run(lambda: bool(out), time.monotonic() + 30)
    assert out == [b"now"]
    assert loop.idle
    assert loop.waited >= 0.02
    os.close(ours), os.close(theirs)


def test_the_deadline_ends_the_loop() -> None:
    ours, theirs = os.pipe()
    loop = Loop()
    loop.start(reader(ours, []))
    assert not loop.run(lambda: False, time.monotonic() + 0.02)
    os.close(ours), os.close(theirs)


def test_conversations_start_others() -> None:
    loop, seen = Loop(), []

    def child(name: int):
        seen.append(name)
        yield Want(until=-math.inf)
        seen.append(-name)

    def parent():
        loop.start(child(1))
        yield Want(until=-math.inf)
        loop.start(child(2))

    loop.start(parent())
    assert loop.run(lambda: loop.idle, time.monotonic() + 30)
    assert sorted(seen) == [-2, -1, 1, 2]


def test_what_is_raised_comes_through() -> None:
    def fails():
        yield Want(until=-math.inf)
        raise KeyError("x")

    loop = Loop()
    loop.start(fails())
    with pytest.raises(KeyError):
        loop.run(lambda: False, time.monotonic() + 30)


def test_a_hang_up_wakes_the_reader() -> None:
    ours, theirs = os.pipe()
    out: list[bytes] = []
    loop = Loop()
    loop.start(reader(ours, out))
    os.close(theirs)
    assert loop.run(lambda: bool(out), time.monotonic() + 30)
    assert out == [b""]
    os.close(ours)
