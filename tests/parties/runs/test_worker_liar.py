"""A server that reads an opened split, and claims in the next attempt that it never had it."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs import agreement as run_agreement
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.runs.worker import RunWorker
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.protocols.growers.choices import split_reason
from hedgerow.protocols.hidden import open_id3
from hedgerow.secure.replicated import ReplicatedEngine
from tests.parties.roles.upload_servers import (
    DOMAIN,
    SERVERS,
    consortium,
    people,
    serving,
    write_csv,
)
from tests.parties.runs.run_servers import job, set_line

LIAR = 2
PLAN = {"noise": "splits+leaves", "epsilon": 1.0, "max_depth": 1}
JOB = job(protocol="open-tree", plan=PLAN, analysts=[])
DRAWS = 2


class Attack:
    """Attempts of three servers over TLS, one of which follows orders of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        parties = consortium(folder)
        table = write_csv(folder / "people.csv", people(100))
        for name in (*SERVERS, "north"):
            set_line(parties[name].folder / "policy.toml", "allowed_protocols", '["open-tree"]')
        with serving(parties):
            share_upload(parties["north"], table, DOMAIN, id="north-1", population="patients")
        self.configs = [parties[name] for name in SERVERS]
        for config in self.configs:
            RunStore(config.state).accept(JOB, "north")
        self.seen: list[list[int]] = []
        self.orders = ""
        self.attempts = 0
        self._me = threading.local()
        confirm, opened = run_agreement.confirm, open_id3._opened_index

        def confirming(network: Any, tag: bytes) -> None:
            self._cut("before it confirms")
            confirm(network, tag)

        def opening(*args: Any) -> Any:
            found = opened(*args)
            if not isinstance(args[0].engine, ReplicatedEngine):
                # The rehearsal, of nobody's rows.
                return found
            if self._me.server == LIAR:
                self.seen.append(found.tolist())
            self._cut("after it has read")
            return found

        monkeypatch.setattr(run_agreement, "confirm", confirming)
        monkeypatch.setattr(open_id3, "_opened_index", opening)

    def attempt(self, orders: str) -> list[Code | None]:
        """Let all three work; return what each has ended with."""
        self.orders, self.attempts = orders, self.attempts + 1
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(self._work, range(3)))

    def forget(self) -> None:
        """Let the liar claim that it has no stage."""
        state = self.configs[LIAR].state
        shutil.rmtree(state.path("runs", JOB.run_id) / "stages")
        with open_store(state).transaction("forget") as made:
            made.drop("stages", run=JOB.run_id)

    def charged(self) -> list[int]:
        """Return how often the split was paid for, by server."""
        found = []
        for config in self.configs:
            domain = JOB.make_plan().domain
            ledger = DurableLedger(open_store(config.state), JOB.run_id, domain=domain)
            found.append(ledger.charged(split_reason(0)))
        return found

    def _cut(self, moment: str) -> None:
        if self._me.server == LIAR and self.orders == moment:
            raise Code.PEER_GONE.error(found="a line that it has cut")

    def _work(self, number: int) -> Code | None:
        self._me.server = number
        session = self.attempts.to_bytes(16, "big")
        config = self.configs[number]
        listener = listen(config.me.host, config.me.run_port)
        worker = RunWorker(config.folder, JOB.run_id, self.attempts, session, listener, SERVERS)
        try:
            worker.work()
        except HedgerowError as error:
            return error.code
        return None


def test_a_server_that_denies_a_stage_it_has_read_gets_no_other_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have the stage and none knows that of the others: it is opened in the next attempt."""
    attack = Attack(tmp_path, monkeypatch)
    refusals = []
    for _ in range(DRAWS):
        attack.attempt("before it confirms")
        refusals.append(attack.attempt("after it has read"))
        attack.forget()
    assert attack.charged() == [1, 1, 1]
    assert len(attack.seen) == 1, f"{len(attack.seen)} draws for one charge: {attack.seen}"
    for codes in refusals[1:]:
        assert Code.WRONG_RUN_STATE in codes[:LIAR]
