"""`Workers`: a bounded number of threads, none of which keeps a process from ending."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Workers(Executor):
    """At most so many threads, made when there is none that waits.

    The pool of the standard library waits at the end of a process for everything that was begun.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._made = 0
        self._lock = threading.Lock()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Call a function in one of the threads."""
        future: Future[_T] = Future()

        def task() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        self._tasks.put(task)
        if not self._free.acquire(blocking=False):
            self._add()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Let all threads end when they have done what they have; nobody waits for them."""
        del wait, cancel_futures
        with self._lock:
            for _ in range(self._made):
                self._tasks.put(None)

    def _add(self) -> None:
        with self._lock:
            if self._made == self._most:
                return
            self._made += 1
        threading.Thread(target=self._work, name="handler", daemon=True).start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            # What it refers to, such as payload, is not kept until the next one comes.
            del task
            self._free.release()
