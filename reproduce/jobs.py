"""Experiments as jobs: on all cores, or one after the other where processes would cost more."""

import multiprocessing
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import Progress

from hedgerow.threads import available


def seed_of(*key: Any) -> int:
    """Return the seed of a run; what follows from it is the same on every machine."""
    return zlib.crc32("/".join(map(str, key)).encode())


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield what shows how much is done, and of how much."""
    # On standard error, so that --json stays one object.
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of, refresh=True)


def run_jobs(
    run: Callable[[Any, Any], list[Any]],
    jobs: Sequence[Any],
    extent: Any,
    tell: Callable[[int, int], None],
    *,
    here: bool = False,
) -> list[Any]:
    """Run all jobs; the records come in the order of the jobs, not of the clock.

    `run`: of a job and `extent`; returns records. To be found by its name in a new process. `tell`:
    told how many jobs are done, and of how many. `here`: one after the other in this process: a
    small study takes less than starting others.
    """
    found: dict[int, list[Any]] = {}
    if here:
        for at, job in enumerate(jobs):
            found[at] = run(job, extent)
            tell(at + 1, len(jobs))
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(available(), mp_context=context) as pool:
            futures = {pool.submit(run, job, extent): at for at, job in enumerate(jobs)}
            for done, future in enumerate(as_completed(futures), 1):
                found[futures[future]] = future.result()
                tell(done, len(jobs))
    return [one for at in range(len(jobs)) for one in found[at]]
