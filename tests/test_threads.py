import os
import threading

import numpy as np
import pytest

from hedgerow import threads


def test_results_come_in_order_and_the_caller_works_too():
    seen = set()

    def task(chunk):
        seen.add(threading.current_thread().name)
        return chunk * 10

    assert threads.run(task, [1, 2, 3]) == [10, 20, 30]
    assert threading.current_thread().name in seen
    assert threads.run(task, [4]) == [40]
    assert threads.run(task, []) == []


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_an_error_in_any_chunk_is_raised_after_all_have_ended(broken):
    ended = []

    def task(chunk):
        if chunk == broken:
            raise ValueError(f"chunk {chunk}")
        ended.append(chunk)

    with pytest.raises(ValueError, match=f"chunk {broken}"):
        threads.run(task, [0, 1, 2])
    assert sorted(ended) == [c for c in range(3) if c != broken]


@pytest.mark.parametrize(("n", "parts"), [(0, 2), (1, 4), (7, 2), (8, 3)])
def test_dealt_covers_everything_once(n, parts):
    chunks = threads.dealt(n, parts)
    assert sorted(np.concatenate(chunks)) == list(range(n))
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1
    assert len(chunks) <= parts


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize(
    "sizes", [[5], [1, 1, 1, 1], [100, 1, 1], [1, 1, 100], [0, 0, 0], [3, 9, 2, 2, 8, 1, 40, 5]]
)
def test_balanced_covers_everything_in_order(sizes, parts):
    runs = threads.balanced(np.array(sizes), parts)
    covered = [i for run in runs for i in range(run.start, run.stop)]
    assert covered == list(range(len(sizes)))
    assert len(runs) <= parts
    assert all(run.stop > run.start for run in runs)
    # No run is larger than an even share and one item.
    assert max(sum(sizes[run]) for run in runs) <= sum(sizes) / parts + max(sizes)


def test_balanced_of_nothing():
    assert threads.balanced(np.empty(0, dtype=np.int64), 2) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_its_own_pool():
    assert threads.run(abs, [-1, -2]) == [1, 2]
    pid = os.fork()
    if pid == 0:
        os._exit(0 if threads.run(abs, [-3, -4]) == [3, 4] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_available_is_positive():
    assert threads.available() >= 1
