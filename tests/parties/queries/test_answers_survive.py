"""Servers in processes of their own, killed at any moment while analysts ask."""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.store.library import Library
from hedgerow.protocols.votes import votes
from tests.parties.queries.answer_towns import SERVERS, Town, table
from tests.parties.wire.parties_calls import refuses

ANALYSTS, EACH, BUDGET = 4, 5, 100


class Processes:
    def __init__(self, town: Town) -> None:
        self.town, self.up = town, {}

    def start(self, number: int) -> None:
        folder = self.town.configs[SERVERS[number]].folder
        script = Path(__file__).with_name("answer_server.py")
        process = subprocess.Popen(
            [sys.executable, str(script), str(folder), "1000"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "up\n"
        self.up[number] = process

    def kill(self, number: int) -> None:
        process = self.up.pop(number)
        process.kill()
        process.communicate()

    def stop(self) -> None:
        for process in self.up.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate("stop\n", timeout=30)
            process.kill()
            process.wait()


def spent(town: Town) -> list[int]:
    found = []
    for number, name in enumerate(SERVERS):
        config = town.configs[name]
        library = Library(config.state, operator_key(config.folder), number)
        book = library.book("m")
        assert votes.answers_left(book.ledger) == BUDGET - book.log.rows
        found.append(book.log.rows)
        library.close()
    return found


@pytest.mark.slow
def test_no_answer_is_lost_and_none_is_charged_twice(tmp_path: Path) -> None:
    town = Town(tmp_path, analysts=ANALYSTS)
    town.train("m", noise="votes", n_trees=3, epsilon=50.0, queries=BUDGET)
    processes = Processes(town)
    answered = [0] * ANALYSTS
    errors: list[Exception] = []
    try:
        for number in range(3):
            processes.start(number)
        known = town.analyst(timeout=60).find("m")

        def ask(number: int) -> None:
            try:
                for k in range(EACH):
                    rows = table(3, seed=k)[0]
                    found = town.analyst(number, timeout=90).ask(known, rows)
                    answered[number] += len(found.labels)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=ask, args=(n,)) for n in range(ANALYSTS)]
        for thread in threads:
            thread.start()
        moments = np.random.default_rng(7).uniform(0.05, 0.6, 6)
        for victim, moment in zip((1, 0, 2, 1, 0, 2), moments, strict=True):
            if not any(thread.is_alive() for thread in threads):
                break
            time.sleep(moment)
            processes.kill(victim)
            processes.start(victim)
        for thread in threads:
            thread.join()
        assert errors == []
        rows = ANALYSTS * EACH * 3
        assert sum(answered) == rows
        analyst = town.analyst(timeout=60)
        assert analyst.find("m").left == BUDGET - rows
        refuses(Code.BUDGET_EXCEEDED, lambda: analyst.ask("m", table(BUDGET - rows + 1)[0]))
    finally:
        processes.stop()
    assert spent(town) == [rows] * 3
