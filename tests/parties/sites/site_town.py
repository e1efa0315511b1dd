"""Three sites on this machine, for tests: folders, tables, jobs, services and processes.

The weather of the paper, in three parts: the club has outlook and the class, the observatory
humidity and wind, the office temperature. Rows come in another order at each of them, and each has
a day that not all have.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.sites.client import SiteClient
from hedgerow.parties.sites.counting import CountRun
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.service import CountService, SiteService
from hedgerow.parties.sites.store import StoredNodes
from hedgerow.parties.sites.table import OwnColumns
from hedgerow.parties.store.database import open_store
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.run import joined_tree
from hedgerow.protocols.vertical_id3.site import Node, Site, SiteTable
from hedgerow.protocols.vertical_id3.tasks import Outgoing
from hedgerow.trees import Tree
from tests.parties.consortia import introduce
from tests.parties.forks import ForkedCommand
from tests.parties.free_ports import free_ports
from tests.protocols.vertical_id3.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import DAYS, WEATHER

PATIENCE = 120.0

SITES = ("club", "observatory", "office")
SERVERS = ("alder", "birch", "cedar")
COLUMNS = {"club": [0], "observatory": [2, 3], "office": [1]}
# A day that one site has and another has not; a row of whatever values.
_MORE = {"club": 98, "observatory": 99, "office": 98}


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes; None takes a key out."""
    timeouts = {"join": 20.0, "lost": 3.0, "answer": 10.0} | changes.pop("timeouts", {})
    made = {
        "name": "tennis",
        "kind": "ppid3",
        "population": "days",
        "sites": list(SITES),
        "class_at": "club",
        "classes": ["no", "yes"],
        "timeouts": timeouts,
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def make_job(**changes: Any) -> VerticalJob:
    return VerticalJob.model_validate(job_dict(**changes))


def part(name: str, *, shared: bool = True, every: bool = False) -> pa.Table:
    """Return the rows of a site; with `every`, the class as well."""
    order = np.random.default_rng(SITES.index(name)).permutation(len(DAYS))
    names = [WEATHER.names[i] for i in COLUMNS[name]]
    columns: dict[str, list[Any]] = {"id": [int(i) + 1 for i in order]}
    for place, column in zip(COLUMNS[name], names, strict=True):
        columns[column] = [DAYS[i][place] for i in order]
    if name == "club" or every:
        columns["play"] = [DAYS[i][4] for i in order]
    if shared:
        for column, values in columns.items():
            values.append(_MORE[name] if column == "id" else values[0])
    return pa.table(columns)


class SiteTown:
    """Sites with a table and a domain each, and servers; policies allow what tests need."""

    def __init__(self, root: Path, *, every: bool = False, servers: bool = False) -> None:
        self.root, self.servers = root, SERVERS if servers else ()
        members = list_members(self.servers, (), sites=SITES, first_port=free_ports())
        found_consortium(root, "tennis", members, {"days": 3.0})
        names = (*SITES, *self.servers)
        self.parties = {name: PartyConfig.load(root / "tennis" / name) for name in names}
        introduce(self.parties)
        for name in names:
            policy = self.parties[name].folder / "policy.toml"
            text = policy.read_text().replace("allow_exact = false", "allow_exact = true")
            policy.write_text(text[: text.index("\ndays = ")] + "\ndays = inf\n")
        for name in SITES:
            pyarrow.csv.write_csv(part(name, every=every), self.table(name))
            own = WEATHER.select(COLUMNS[name], target=name == "club" or every)
            self.domain(name).write_text(own.to_toml())
        self.processes: list[ForkedCommand] = []

    def table(self, name: str) -> Path:
        return self.root / f"{name}.csv"

    def domain(self, name: str) -> Path:
        return self.root / f"{name}.toml"

    def write(self, job: VerticalJob, name: str = "job.toml") -> Path:
        path = self.root / name
        path.write_text(job.to_toml())
        return path

    def run(self, name: str, job: VerticalJob, **options: Any) -> SiteRun:
        policy = Policy.load(self.parties[name].folder)
        config, domain = self.parties[name], self.domain(name)
        return SiteRun(config, policy, job, domain, self.table(name), "id", **options)

    def client(self, name: str, job: VerticalJob) -> SiteClient:
        return SiteClient(self.parties[name], job)

    def folder(self, name: str, job: VerticalJob) -> Path:
        return self.parties[name].folder / "state" / "ppid3" / job.run_id

    @contextmanager
    def serving(
        self, job: VerticalJob, *names: str, **options: Any
    ) -> Iterator[dict[str, SiteRun]]:
        """Serve in threads of this process."""
        with ExitStack() as stack:
            runs = {name: self.run(name, job, **options) for name in names or SITES}
            for run in runs.values():
                stack.enter_context(SiteService(run))
            yield runs

    @contextmanager
    def counting(
        self, job: VerticalJob, *names: str, **options: Any
    ) -> Iterator[dict[str, CountRun]]:
        """Have servers count in threads of this process."""
        with ExitStack() as stack:
            runs = {}
            for name in names or SERVERS:
                config = self.parties[name]
                runs[name] = CountRun(config, Policy.load(config.folder), job, **options)
                stack.enter_context(CountService(runs[name]))
            yield runs

    def stored(self, name: str, job: VerticalJob) -> StoredNodes:
        own = OwnColumns.load(self.domain(name), job, SITES.index(name))
        text = self.nodes_text(name, job)
        assert text is not None
        return StoredNodes.from_json(text, job, name, own)

    def nodes_text(self, name: str, job: VerticalJob, state: str = "kept") -> str | None:
        """Return the part of the tree that a site keeps, or that is pending there."""
        with open_store(self.parties[name].state).snapshot() as made:
            return made.site_nodes(job.run_id, state)

    def kept(self, job: VerticalJob) -> dict[str, bool]:
        """Say which sites keep a part of the tree."""
        return {name: self.nodes_text(name, job) is not None for name in SITES}

    def nodes(self, job: VerticalJob) -> dict[str, dict[int, Node]]:
        return {name: self.stored(name, job).nodes for name in SITES}

    def tree(self, job: VerticalJob) -> Tree:
        """Put the stored parts together."""
        sites = self.local(job).sites
        for site, name in zip(sites, SITES, strict=True):
            site.nodes = self.stored(name, job).nodes
        root = self.stored("club", job).root
        return joined_tree(sites, root, WEATHER, list(COLUMNS.values()))

    def tables(self, job: VerticalJob) -> list[SiteTable]:
        """Read the files of all sites."""
        return [
            OwnColumns.load(self.domain(name), job, index).table(self.table(name), "id")
            for index, name in enumerate(SITES)
        ]

    def local(self, job: VerticalJob) -> LocalSites:
        """Return the same sites with the same files, in this process."""
        tables = enumerate(self.tables(job))
        return LocalSites([Site(index, job.protocol_job(), table) for index, table in tables])

    def start(self, name: str, verb: str, job: Path, *options: object) -> ForkedCommand:
        """Start a command of a site as a process; its lines are JSON."""
        arguments = ["site", verb, str(job), *map(str, options), "--format", "json"]
        process = ForkedCommand(self.parties[name].folder, arguments)
        self.processes.append(process)
        return process

    def serve(self, name: str, job: Path, *options: object) -> ForkedCommand:
        own = ("--table", self.table(name), "--domain", self.domain(name))
        return self.start(name, "serve", job, *own, *options)

    def end(self) -> None:
        """End what is still running."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@contextmanager
def site_town(root: Path, **options: Any) -> Iterator[SiteTown]:
    """Make a town; its processes are ended with it."""
    town = SiteTown(root, **options)
    try:
        yield town
    finally:
        town.end()


def reference(town: SiteTown, job: VerticalJob) -> tuple[LocalSites, Token, Tree]:
    """Grow the tree in this process."""
    local = town.local(job)
    root = local.grow()
    return local, root, joined_tree(local.sites, root, WEATHER, list(COLUMNS.values()))


class HeldProgram(SiteProgram):
    """A site that stops in the middle of growing, until it is let go."""

    go, reached = threading.Event(), threading.Event()

    def receive(self, sender: int, data: bytes) -> list[Outgoing]:
        if self.site.announced:
            self.reached.set()
            assert self.go.wait(60)
        return super().receive(sender, data)


class Training:
    """The command `train` in a thread."""

    def __init__(self, town: SiteTown, job: VerticalJob) -> None:
        self.error: HedgerowError | None = None
        self.said: list[dict[str, Any]] = []
        self._client = town.client("club", job)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._client.train(self.said.append)
        except HedgerowError as error:
            self.error = error

    def end(self) -> HedgerowError | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.error


def until(reached: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that threads do."""
    end = time.monotonic() + seconds
    while not reached() and time.monotonic() < end:
        time.sleep(0.01)
    assert reached()


def learned(town: SiteTown, name: str, job: VerticalJob) -> dict[str, dict[str, Any]]:
    """Read the records of what a site has learned, by attempt."""
    with open_store(town.parties[name].state).snapshot() as made:
        return {key: json.loads(text) for key, text in made.learned(job.run_id).items()}


def lines_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def event_of(process: subprocess.Popen[str], event: str, **wanted: Any) -> dict[str, Any]:
    """Read the lines of a process up to an event with some fields."""
    for line in lines_of(process):
        if line.get("event") == event and all(line.get(k) == v for k, v in wanted.items()):
            return line
    assert process.stderr is not None
    raise AssertionError(f"no {event}: {process.stderr.read()}")


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for the end of a process that must end well; return its last line."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out, err)
    last: dict[str, Any] = json.loads(out.splitlines()[-1])
    return last


def kill(process: subprocess.Popen[str]) -> None:
    """End a process as a power cut would."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
