"""Experiments as jobs: on all cores, or one after the other where processes would cost more."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from hedgerow.threads import available


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
