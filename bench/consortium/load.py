"""Load: many analysts ask one model at once until its budget is spent to the last row."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from bench.consortium.parties import SERVERS, Consortium, people
from hedgerow.errors import HedgerowError

MODEL, SETTLED = "votes", 0.25
"""Name of the model, and the share of all queries after which memory should grow no more."""


class Sampler:
    """Looks at the memory of the servers, while others ask."""

    def __init__(self, town: Consortium) -> None:
        self._town, self._ended = town, threading.Event()
        self.answered = 0
        self.seen: list[tuple[int, dict[str, int]]] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def count(self, rows: int) -> None:
        """Take note of answers."""
        with self._lock:
            self.answered += rows

    def end(self) -> None:
        """Look once more, and stop."""
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            last = self._ended.wait(0.5)
            self.seen.append((self.answered, self._town.memory()))
            if last:
                return


def load(town: Consortium, queries: int, each: int, limit: float = 3600.0) -> dict[str, Any]:
    """Ask until nothing is left; return figures and what is wrong.

    `town`: all of its analysts ask. `queries`: rows in all, which is the budget of the model;
    shared evenly among the analysts. `limit`: seconds for one request, after which its analyst
    gives up.
    """
    job = town.job(MODEL, noise="votes", epsilon=1.0, n_trees=4, max_depth=2, queries=queries)
    status = list(town.train(job))[-1]
    if status.state != "done":
        raise RuntimeError(f"the model of the load: {status}")
    known = town.analyst().find(MODEL)
    shares = np.array_split(np.arange(queries), len(town.analysts))
    table, sampler = people(100).drop_columns(["ill"]), Sampler(town)
    before, used, begun = town.memory(), town.processor_seconds(), time.monotonic()
    refused: list[str] = []
    times: list[float] = []

    def ask(number: int) -> int:
        """Ask as one analyst, request after request; return how many rows were answered."""
        analyst, answered = town.analyst(number, timeout=limit), 0
        for at in range(0, len(shares[number]), each):
            rows = shares[number][at : at + each]
            start = time.monotonic()
            try:
                found = analyst.ask(known, table.take(rows % len(table)))
            except HedgerowError as error:
                refused.append(f"{error.code.number} {error.found}")
                continue
            times.append(time.monotonic() - start)
            answered += len(found.labels)
            sampler.count(len(found.labels))
        return answered

    try:
        with ThreadPoolExecutor(len(shares)) as pool:
            answered = sum(pool.map(ask, range(len(shares))))
    finally:
        sampler.end()
    seconds = time.monotonic() - begun
    spent = {name: s - used[name] for name, s in town.processor_seconds().items()}
    wrong = [f"refused: {text}" for text in refused[:5]]
    if answered != queries:
        wrong.append(f"{answered} rows answered, not {queries}")
    wrong += _checked(town, queries, len(times)) + _spent(town, known)
    settled = next((seen for n, seen in sampler.seen if n >= SETTLED * queries), before)
    after = town.memory()
    return {
        "analysts": len(shares),
        "queries": queries,
        "requests": len(times),
        "rows_per_request": each,
        "answered": answered,
        "refused": len(refused),
        "wrong": wrong,
        "seconds": round(seconds, 1),
        "queries_per_s": round(queries / seconds, 1),
        "requests_per_s": round(len(times) / seconds, 1),
        "median_request_s": round(float(np.median(times)), 3),
        "longest_request_s": round(max(times), 3),
        "cpu_ms_per_request": {
            name: round(1e3 * one / max(1, len(times)), 2) for name, one in spent.items()
        },
        "memory_mb": {
            name: [round(m[name] / 1e6, 1) for m in (before, settled, after)] for name in SERVERS
        },
    }


def _checked(town: Consortium, queries: int, requests: int) -> list[str]:
    """Compare the stores of the servers with what was answered."""
    wrong = []
    for name in SERVERS:
        charged, answered = town.asked(name, MODEL)
        if len(charged) != requests or charged.total() != requests:
            wrong.append(f"{name}: {charged.total()} requests charged, not {requests}")
        if sum(n for _, _, n in charged) != queries:
            wrong.append(f"{name}: {sum(n for _, _, n in charged)} rows charged, not {queries}")
        if len(answered) != requests:
            wrong.append(f"{name}: {len(answered)} requests answered, not {requests}")
    return wrong


def _spent(town: Consortium, known: Any) -> list[str]:
    """Ask for one row more, with and without a look at what is left."""
    analyst, row = town.analyst(), people(1).drop_columns(["ill"])
    wrong = []
    for model in (replace(known, left=1), MODEL):
        try:
            analyst.ask(model, row)
            wrong.append("a row beyond the budget was answered")
        except HedgerowError as error:
            if error.code.number != "H207":
                wrong.append(f"{error.code.number} for a row beyond the budget, not H207")
    return wrong
