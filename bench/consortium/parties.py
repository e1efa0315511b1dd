"""A consortium on loopback for `bench.consortium`: three daemons, an owner, analysts, an audit."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.consortium.links import Links, reroute
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig, Timeouts
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.members import introduce_all
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.queries.asking import Analyst
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient, RunStatus
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.tables import Attribute, Domain, Target

SERVERS, OWNER = ("alder", "birch", "cedar"), "north"
POPULATION = "patients"
PATIENCE = 120.0
_AGAIN = {
    Code.SERVICE_UNREACHABLE,
    Code.REQUEST_CUT_OFF,
    Code.REQUEST_TOO_SLOW,
    Code.SERVICE_BUSY,
    Code.SERVICE_STOPPING,
}
PEOPLE = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=5),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=100,
)


def people(n: int = 100, seed: int = 0) -> pa.Table:
    """Return made-up people; two wards of three say who is ill."""
    rng = np.random.default_rng(seed)
    ward = rng.integers(0, 3, n)
    ill = (ward + rng.integers(0, 2, n)) > 1
    return pa.table(
        {
            "age": rng.integers(0, 101, n),
            "ward": np.array(["a", "b", "c"])[ward],
            "sex": np.array(["f", "m"])[rng.integers(0, 2, n)],
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )


class Consortium:
    """Folders of all parties under one root, and the servers as processes.

    `queries`: rows that a model may be asked. `rejoin`, `step`, `connect`: timeouts of the servers,
    see `Timeouts`.
    """

    def __init__(
        self,
        root: Path,
        *,
        analysts: int = 1,
        queries: int = 1_000_000,
        rejoin: float = 30.0,
        step: float = 15.0,
        connect: float = 10.0,
    ) -> None:
        self.root = root
        self.analysts = [f"analyst-{k}" for k in range(analysts)]
        members = list_members(SERVERS, [OWNER], self.analysts, first_port=free_ports())
        self.timeouts = Timeouts(rejoin=rejoin, step=step, connect=connect)
        made = found_consortium(
            root,
            "wards",
            members,
            {POPULATION: float("inf")},
            policy={
                "largest_delta_per_job": 1e-6,
                "allow_exact": True,
                "allowed_protocols": ("hidden-tree",),
                "queries_per_model": queries,
                "queries_per_analyst": queries,
            },
            timeouts=self.timeouts,
        )
        introduce_all(made)
        self.parties = {path.name: PartyConfig.load(path) for path in made}
        self.policy = Policy.load(made[0])
        self.daemons: dict[str, subprocess.Popen[str]] = {}

    @property
    def ports(self) -> dict[str, list[int]]:
        """All ports of every server."""
        return {server.name: list(server.ports) for server in self.parties[OWNER].servers}

    def reroute(self, doors: dict[tuple[str, int], int]) -> None:
        """Make everybody call servers at other ports, by caller and port."""
        self.parties = {name: reroute(config, doors) for name, config in self.parties.items()}

    def start(self, *names: str) -> None:
        """Start servers and wait until they take requests."""
        for name in names or SERVERS:
            with (self.root / f"{name}.log").open("ab") as log:
                self.daemons[name] = subprocess.Popen(
                    [sys.executable, "-m", "hedgerow.cli", "serve", "--format", "json"],
                    cwd=self.parties[name].folder,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    # A group of its own, of which its worker is a part: both can be killed at once.
                    start_new_session=True,
                )
        for name in names or SERVERS:
            stdout = self.daemons[name].stdout
            assert stdout is not None
            if '"serving"' not in (line := stdout.readline()):
                raise RuntimeError(f"{name} does not serve: {line} {self.log(name)}")

    def kill(self, name: str) -> None:
        """End a server and its worker as a power cut does."""
        daemon = self.daemons[name]
        with suppress(ProcessLookupError):
            os.killpg(daemon.pid, signal.SIGKILL)
        daemon.communicate()

    def stop(self) -> None:
        """End all servers."""
        for daemon in self.daemons.values():
            daemon.terminate()
        for name, daemon in self.daemons.items():
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(20)
            self.kill(name)

    def log(self, name: str) -> str:
        """Return the end of what a server has written to its standard error."""
        return (self.root / f"{name}.log").read_text()[-2000:]

    def memory(self) -> dict[str, int]:
        """Return the bytes of memory that each daemon holds now."""
        page = os.sysconf("SC_PAGE_SIZE")
        statm = {n: Path(f"/proc/{d.pid}/statm").read_text() for n, d in self.daemons.items()}
        return {name: int(text.split()[1]) * page for name, text in statm.items()}

    def processor_seconds(self) -> dict[str, float]:
        """Return the processor time that each daemon has used, and this process."""
        processes = {name: daemon.pid for name, daemon in self.daemons.items()}
        found = {}
        for name, pid in (processes | {"analysts": os.getpid()}).items():
            # What follows the name of the program, which is in brackets and may be anything.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def upload(self, table: pa.Table, domain: Domain, id: str = "north-1") -> float:
        """Upload a table; return the seconds that it took."""
        path = self.root / f"{id}.parquet"
        pq.write_table(table, path)
        owner = self.parties[OWNER]
        return share_upload(owner, path, domain, id=id, population=POPULATION).seconds

    def job(self, name: str, domain: Domain = PEOPLE, **plan: Any) -> ServerJob:
        """Return a job of this name, whose model has the name too."""
        fields = {
            "name": name,
            "protocol": "hidden-tree",
            "model": name,
            "population": POPULATION,
            "uploads": ["north-1"],
            "analysts": self.analysts,
            "plan": {"noise": "none", "max_depth": 3, **plan},
            "domain": domain.to_dict(),
        }
        return ServerJob.model_validate(fields)

    def train(
        self, job: ServerJob, pause: float = 0.1, patience: float = PATIENCE
    ) -> Iterator[RunStatus]:
        """Post a job, again if a server was not there, and yield how it gets on."""
        client, end = RunClient(self.parties[OWNER]), time.monotonic() + patience
        while True:
            try:
                client.post(job)
                break
            except HedgerowError as error:
                if error.code not in _AGAIN or time.monotonic() > end:
                    raise
            time.sleep(0.2)
        for status in client.watch(job.run_id, pause=pause):
            yield status
            if time.monotonic() > end:
                raise RuntimeError(f"{job.run_id} has not ended after {patience} s: {status}")

    def analyst(self, number: int = 0, timeout: float = PATIENCE) -> Analyst:
        """Return an analyst."""
        return Analyst(self.parties[self.analysts[number]], timeout=timeout)

    def charges(self, name: str) -> dict[str, int]:
        """Return how often each key was charged to the account at a server."""
        found = {one.population: one for one in balances_in(self.parties[name].folder)}
        return Counter(charge.key for charge in found[POPULATION].spent.charges)

    def ledger(self, name: str, run: str) -> list[str]:
        """Return the lines of the ledger of a run at a server."""
        with open_store(self.parties[name].state).snapshot() as made:
            return [row["line"] for row in made.rows("ledger_lines", run=run)]

    def asked(self, name: str, model: str) -> tuple[Counter[tuple[str, str, int]], dict[str, str]]:
        """Return how often each query was charged at a server, and the draw that answers each."""
        with open_store(self.parties[name].state).snapshot() as made:
            rows = made.rows("questions", model=model)
        charged = Counter((row["analyst"], row["id"], row["n"]) for row in rows)
        return charged, {row["id"]: row["draw"] for row in rows if row["done"]}


def free_ports() -> int:
    """Return a first port such that all ports of three servers are free now."""
    for first in random.sample(range(28_000, 31_900, 30), 100):
        with ExitStack() as stack:
            try:
                for port in (first + 10 * i + j for i in range(3) for j in range(2)):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no ports are free")


@contextmanager
def consortium(root: Path, **options: Any) -> Iterator[Consortium]:
    """Yield a consortium whose servers are up and have a table of people."""
    made = Consortium(root, **options)
    try:
        made.start()
        made.upload(people(), PEOPLE)
        yield made
    finally:
        made.stop()


@contextmanager
def linked(folder: Path, **timeouts: Any) -> Iterator[tuple[Consortium, Links]]:
    """Yield a consortium whose servers are up, and the links through which they are called."""
    town = Consortium(folder, **timeouts)
    with Links(town.ports, list(town.parties)) as links:
        town.reroute(links.doors)
        try:
            town.start()
            yield town, links
        finally:
            town.stop()
