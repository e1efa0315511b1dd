"""Threads are bounded, are used again, and keep nobody from ending."""

import subprocess
import sys
import threading

import pytest

from hedgerow.parties.wire.workers import Workers


def test_no_more_threads_than_there_may_be() -> None:
    workers, free, inside = Workers(3), threading.Event(), threading.Semaphore(0)

    def wait(k: int) -> tuple[int, str]:
        inside.release()
        free.wait(20)
        return k, threading.current_thread().name

    made = [workers.submit(wait, k) for k in range(9)]
    for _ in range(3):
        assert inside.acquire(timeout=20)
    # All three have something to do; the others wait.
    assert sum(future.running() for future in made) == 3
    assert workers._made == 3
    free.set()
    assert [future.result(20)[0] for future in made] == list(range(9))
    workers.shutdown()


def test_one_that_is_free_is_used_again() -> None:
    workers = Workers(50)
    seen = {workers.submit(threading.get_ident).result(20)}
    for _ in range(20):
        # It says that it is free after it has given its result.
        assert workers._free.acquire(timeout=20)
        workers._free.release()
        seen.add(workers.submit(threading.get_ident).result(20))
    assert len(seen) == 1
    workers.shutdown()


def test_what_goes_wrong_is_told() -> None:
    workers = Workers(1)
    with pytest.raises(ZeroDivisionError):
        workers.submit(lambda: 1 / 0).result(20)
    assert workers.submit(pow, 2, 5).result(20) == 32
    workers.shutdown()


def test_a_process_ends_although_a_handler_does_not() -> None:
    program = (
        "import threading\n"
        "from hedgerow.parties.wire.workers import Workers\n"
        "begun = threading.Event()\n"
        "Workers(1).submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "begun.wait()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
