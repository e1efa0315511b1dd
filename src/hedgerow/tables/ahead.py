"""Work on the next items while the results of the first are used, in order and in little memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from hedgerow import threads

Item = TypeVar("Item")
Result = TypeVar("Result")


def ahead(task: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Call `task` for every item on all cores and give the results in the order of the items.

    Parameters
    ----------
    task
        Releases the GIL for most of its time.
    items
        Drawn in the calling thread, one more than there are cores ahead of the results at most.

    Yields
    ------
    Result
        If a task fails, its error, in place of the result; later items are left out. When the
        iterator is closed early, or by an interrupt, tasks that run are waited for.
    """
    cores = threads.available()
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(cores, "hedgerow-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
