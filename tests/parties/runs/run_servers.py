"""Three servers as processes that can be killed, and clients of theirs, for tests of runs."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.models import open_model
from hedgerow.parties.wire.client import call
from hedgerow.parties.wire.requests import Fields
from hedgerow.privacy import Leakage
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.protocol import stored_forest
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.tables import Encoded, encode
from tests.parties.forks import fork, offspring
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, consortium, people, write_csv
from tests.parties.runs.run_daemon import serve_runs
from tests.protocols.hidden.hidden_runs import answers_of

PATIENCE = 240.0
"""Seconds for what comes to pass in a few, however loaded the machine is."""


def set_line(path: Path, key: str, value: str) -> None:
    """Set one option of a TOML file."""
    text, times = re.subn(rf"^{key} = [^\n]*", f"{key} = {value}", path.read_text(), flags=re.M)
    assert times == 1, key
    path.write_text(text)


def job(name: str = "ward", **changes: Any) -> ServerJob:
    """Return a job on the upload of the consortium."""
    plan = {"noise": "none", "max_depth": 3, **changes.pop("plan", {})}
    fields = {
        "name": name,
        "protocol": "hidden-tree",
        "model": f"{name}-model",
        "population": "patients",
        "uploads": ["north-1"],
        "analysts": ["zoe"],
        "plan": plan,
        "domain": DOMAIN.to_dict(),
    }
    return ServerJob.model_validate(fields | changes)


class Town:
    """A consortium on this machine; its servers are processes."""

    def __init__(self, folder: Path, *, rejoin: float = 30.0, step: float = 15.0) -> None:
        self.folder = folder
        self.parties = consortium(folder)
        self.table = people(100)
        for name in (*SERVERS, "north", "south"):
            place = self.parties[name].folder
            set_line(place / "policy.toml", "allow_exact", "true")
            set_line(place / "policy.toml", "patients", "inf")
            protocols = '["hidden-tree", "open-tree"]'
            set_line(place / "policy.toml", "allowed_protocols", protocols)
        self.set_timeouts(rejoin=rejoin, step=step)
        self.daemons: dict[str, BaseProcess] = {}

    def set_timeouts(self, **seconds: float) -> None:
        """Let servers wait for so long, from their next start on."""
        for name in SERVERS:
            path = self.parties[name].folder / "party.toml"
            for key, value in seconds.items():
                line = f"{key} = {value:g}"
                path.write_text(re.sub(rf"^{key} = [0-9]+", line, path.read_text(), flags=re.M))
        self.parties = {name: PartyConfig.load(c.folder) for name, c in self.parties.items()}

    def start(self, *names: str) -> None:
        """Start servers and wait until they answer."""
        for name in names or SERVERS:
            log = self.folder / f"{name}.log"
            self.daemons[name] = fork(serve_runs, self.parties[name].folder, log)
        for name in names or SERVERS:
            self.until(lambda name=name: self.answers(name), f"{name} to answer")

    def kill(self, name: str) -> None:
        """End a daemon as a power cut does."""
        self.daemons[name].kill()
        self.daemons[name].join()

    def stop(self) -> None:
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.join(10)
            daemon.kill()
            daemon.join()

    def worker(self, name: str) -> int | None:
        """Return the process of a server's worker, which its forker has begun."""
        return next(iter(offspring(self.daemons[name].pid)[1:]), None)

    def kill_worker(self, name: str) -> bool:
        pid = self.worker(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid is not None

    def answers(self, name: str) -> bool:
        try:
            self.ask(name, "runs")
        except HedgerowError as error:
            if error.code is Code.SERVICE_UNREACHABLE:
                return False
            raise
        return True

    def ask(
        self, name: str, verb: str, fields: Fields | None = None, payload: Any = None, by="north"
    ) -> Fields:
        server, client = self.parties[name].me, self.parties[by]
        return call(
            (server.host, server.port),
            client.identity,
            client.certificate(name),
            verb,
            fields or {},
            payload,
            name=name,
            timeout=20.0,
        ).fields

    def upload(self) -> None:
        path = write_csv(self.folder / "people.csv", self.table)
        share_upload(self.parties["north"], path, DOMAIN, id="north-1", population="patients")

    def post(self, job: ServerJob, *names: str) -> str:
        for name in names or SERVERS:
            self.ask(name, "job", {}, job.to_toml().encode())
        return job.run_id

    def state(self, name: str, run: str) -> str:
        return self.ask(name, "run-show", {"run": run})["state"]

    def until(self, reached, what: str, patience: float = PATIENCE) -> float:
        begun = time.monotonic()
        while not reached():
            if time.monotonic() - begun > patience:
                logs = [f"{n}: {(self.folder / f'{n}.log').read_text()[-3000:]}" for n in SERVERS]
                raise AssertionError(f"waited in vain for {what}\n" + "\n".join(logs))
            time.sleep(0.05)
        return time.monotonic() - begun

    def until_state(self, run: str, state: str, *names: str, patience: float = PATIENCE) -> float:
        def all_there() -> bool:
            states = {self.state(name, run) for name in names or SERVERS}
            assert state == "failed" or "failed" not in states, self.errors(run)
            return states == {state}

        return self.until(all_there, f"run {run} {state}", patience)

    def errors(self, run: str) -> list[Any]:
        return [self.ask(name, "run-show", {"run": run})["error"] for name in SERVERS]

    def predictions(self, model: str) -> np.ndarray:
        """Ask a model about all of its rows, with the shares of the three servers in one place."""
        rows = encode(self.table.drop_columns(["id"]), DOMAIN, "ill")
        stored = []
        for name in SERVERS:
            config = self.parties[name]
            stored.append(open_model(config.state, operator_key(config.folder), model))
        assert len({one.manifest.tag for one in stored}) == 1
        assert len({one.ledger for one in stored}) == 1
        plan, ledger = stored[0].manifest.read_plan(), stored[0].read_ledger()
        n = rows.n_slots
        leakage = Leakage(HIDDEN_TREE.answer_openings(plan, n), ledger=ledger)
        with Simulator(3) as network:
            engine = ReplicatedEngine(network, leakage)
            shares = {
                key: np.concatenate([one.shares[key] for one in stored]) for key in stored[0].shares
            }
            forest = stored_forest(engine, plan, shares)
            bare = Encoded(plan.layout.domain, rows.bins, None, rows.present)
            return answers_of(forest, plan, bare, "class", ledger)


@contextlib.contextmanager
def town(folder: Path, **options: float) -> Iterator[Town]:
    """A consortium with its servers up and a table uploaded."""
    made = Town(folder, **options)
    try:
        made.start()
        made.upload()
        yield made
    finally:
        made.stop()
