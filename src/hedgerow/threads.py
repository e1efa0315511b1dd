"""Run work that releases the GIL on the available cores, in one pool for the whole process.

Numba's own thread layers do not survive a fork and crash when entered from two threads; plain
threads around kernels compiled with ``nogil=True`` do neither.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Lock, local
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Chunk = TypeVar("Chunk")
Item = TypeVar("Item")
Result = TypeVar("Result")

_pool: ThreadPoolExecutor | None = None
_lock = Lock()
_here = local()


def available() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(task: Callable[[Chunk], Result], chunks: Sequence[Chunk]) -> list[Result]:
    """Call `task` once per chunk, at the same time; the calling thread does its share.

    Within a task the chunks are worked off one after the other: a pool whose threads wait for each
    other would stand still.

    `task`: releases the GIL for most of its time, and writes only to what belongs to its chunk.
    `chunks`: one per thread that should work. Results in the order of `chunks`.
    """
    if len(chunks) <= 1 or getattr(_here, "in_pool", False):
        return [task(chunk) for chunk in chunks]
    pool = _shared_pool()
    others = [pool.submit(task, chunk) for chunk in chunks[1:]]
    try:
        first = task(chunks[0])
    finally:
        # Buffers of the caller must not be let go while another thread still writes to them.
        errors = [future.exception() for future in others]
    for error in errors:
        if error is not None:
            raise error
    return [first, *(future.result() for future in others)]


def each(task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Call `task` once per item, on as many cores as there are; a free core takes the next item.

    `task`: as for `run`. `items`: any number of them, of any cost. Results in the order of `items`.
    If some fail, the first of them in that order raises, and items that were not begun are left
    out.
    """
    waiting = deque(enumerate(items))
    results: dict[int, Result] = {}
    failures: dict[int, BaseException] = {}

    def work(_: int) -> None:
        while True:
            try:
                i, item = waiting.popleft()
            except IndexError:
                return
            try:
                results[i] = task(item)
            except BaseException as error:
                # Items are begun in order: whichever fails before this one has begun already.
                failures[i] = error
                waiting.clear()

    run(work, range(min(len(items), available())))
    if failures:
        raise failures[min(failures)]
    return [results[i] for i in range(len(items))]


def dealt(n: int, parts: int) -> list[NDArray[np.int64]]:
    """Deal 0..n-1 out like cards, so that neighbours of similar cost go to different parts."""
    parts = max(1, min(parts, n))
    return [np.arange(part, n, parts, dtype=np.int64) for part in range(parts)]


def balanced(sizes: NDArray[np.int64], parts: int) -> list[slice]:
    """Cut a sequence into runs of about equal total size.

    `sizes`: cost of each item, shape (n,). `parts`: largest number of runs. Not empty, in order,
    together covering 0..n-1.
    """
    n = int(sizes.size)
    if n == 0:
        return []
    ends = np.cumsum(sizes)
    marks = ends[-1] * np.arange(1, parts) / parts
    edges = np.unique(np.concatenate([[0], np.searchsorted(ends, marks, side="left") + 1, [n]]))
    edges = edges[edges <= n]
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(available(), "hedgerow", initializer=_enter_pool)
        return _pool


def _enter_pool() -> None:
    _here.in_pool = True


def _forget_pool() -> None:
    """Start afresh in a forked child, where the parent's threads do not exist."""
    global _pool, _lock, _here
    _pool, _lock, _here = None, Lock(), local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
