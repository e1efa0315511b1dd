"""One pool for the whole process: in order, re-entrant, safe to fork, within the affinity."""

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


def test_each_keeps_the_order_and_a_free_core_takes_the_next_item(monkeypatch):
    monkeypatch.setattr(threads, "available", lambda: 2)
    rest_done = threading.Event()
    seen = []

    def task(item):
        if item == 0:
            # With one core for each half of the items this would wait for ever.
            assert rest_done.wait(60)
        seen.append(item)
        if len(seen) == 9:
            rest_done.set()
        return -item

    assert threads.each(task, range(10)) == [-i for i in range(10)]
    assert seen[-1] == 0
    assert threads.each(task, []) == []


def test_each_raises_the_first_failure_in_order(monkeypatch):
    monkeypatch.setattr(threads, "available", lambda: 2)
    later_failed = threading.Event()
    begun = []

    def task(item):
        begun.append(item)
        if item == 3:
            assert later_failed.wait(60)
            raise KeyError(item)
        if item == 4:
            later_failed.set()
            raise KeyError(item)

    with pytest.raises(KeyError, match="3"):
        threads.each(task, range(1000))
    assert sorted(begun) == [0, 1, 2, 3, 4]


def test_each_uses_no_more_threads_than_cores(monkeypatch):
    for cores in (1, 3):
        monkeypatch.setattr(threads, "available", lambda n=cores: n)
        seen = set()

        def task(_, seen=seen):
            seen.add(threading.current_thread().name)

        threads.each(task, range(200))
        assert len(seen) <= cores
        assert cores > 1 or seen == {threading.current_thread().name}


def test_a_task_may_ask_for_threads_itself():
    """More tasks than the pool has threads, each of which asks for as many again."""
    width = 2 * threads.available() + 2

    def outer(i):
        return sum(threads.run(lambda j: i * j, range(width)))

    expected = [i * sum(range(width)) for i in range(width)]
    assert threads.run(outer, range(width)) == expected
    assert threads.each(lambda i: sum(threads.each(lambda j: i * j, range(width))), range(width))
    assert threads.run(outer, range(width)) == expected


def test_several_callers_at_once():
    results = {}

    def caller(k):
        results[k] = [threads.each(lambda i: i + k, range(50)) for _ in range(20)]

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(60)
    assert results == {k: [[i + k for i in range(50)]] * 20 for k in range(6)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("from_the_pool", [False, True])
def test_a_forked_child_has_its_own_pool(from_the_pool):
    def fork(chunk):
        if chunk != 1:
            return 0
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                seen = set()
                barrier = threading.Barrier(2, timeout=60)

                def meet(item):
                    seen.add(threading.current_thread())
                    barrier.wait()
                    return abs(item)

                status = 0 if threads.run(meet, [-3, -4]) == [3, 4] and len(seen) == 2 else 2
            finally:
                # Whatever happens, the child must not go on with the parent's tests.
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert threads.run(abs, [-1, -2]) == [1, 2]
    assert (threads.run(fork, [0, 1]) if from_the_pool else [0, fork(1)]) == [0, 0]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_available_honours_the_affinity(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert threads.available() == 1


def test_available_without_affinity(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.available() == 1
