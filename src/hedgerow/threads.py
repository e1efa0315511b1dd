"""Run compiled kernels that release the GIL on the available cores.

Numba's own thread layers do not survive a fork and crash when entered from two threads; plain
threads around kernels compiled with ``nogil=True`` do neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

_pool: ThreadPoolExecutor | None = None
_lock = Lock()


def available() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(task: Callable[[Chunk], Result], chunks: Sequence[Chunk]) -> list[Result]:
    """Call `task` once per chunk, at the same time; the calling thread does its share.

    Must not be called from within a task: a pool whose threads wait for each other stands still.

    Parameters
    ----------
    task
        Releases the GIL for most of its time, and writes only to what belongs to its chunk.
    chunks
        One per thread that should work.

    Returns
    -------
    list
        Results in the order of `chunks`.
    """
    if len(chunks) <= 1:
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


def dealt(n: int, parts: int) -> list[NDArray[np.int64]]:
    """Deal 0..n-1 out like cards, so that neighbours of similar cost go to different parts."""
    parts = max(1, min(parts, n))
    return [np.arange(part, n, parts, dtype=np.int64) for part in range(parts)]


def balanced(sizes: NDArray[np.int64], parts: int) -> list[slice]:
    """Cut a sequence into runs of about equal total size.

    Parameters
    ----------
    sizes
        Cost of each item, shape (n,).
    parts
        Largest number of runs.

    Returns
    -------
    list of slice
        Not empty, in order, together covering 0..n-1.
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
            _pool = ThreadPoolExecutor(max_workers=available(), thread_name_prefix="hedgerow")
        return _pool


def _forget_pool() -> None:
    """Start afresh in a forked child, where the parent's threads do not exist."""
    global _pool, _lock
    _pool, _lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
