"""Owners and a coordinator on this machine, for tests: folders, tables, jobs and processes."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.owner import encoded_table
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.topdown.coordinator import Coordinator
from hedgerow.protocols.topdown.owner import Owner
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees import Tree
from tests.parties.consortia import introduce
from tests.parties.free_ports import free_ports
from tests.protocols.topdown.topdown_cases import grow_topdown

PROGRAM = Path(sys.executable).with_name("hedgerow")
OWNERS = ("north", "south", "east", "west")
SEEDS = {"north": 1, "south": 2, "east": 3, "west": 4}
SERVERS = ("alder", "birch", "cedar")
SERVER_SEED = 9
PATIENCE = 120.0
DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=8),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
        Attribute(name="sex", kind="categorical", categories=("f", "m")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=4000,
)


def people(n: int, seed: int) -> pa.Table:
    """Make the table of an owner."""
    rng = np.random.default_rng(seed)
    age, ward, sex = rng.uniform(0, 100, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    ill = (age > 50) ^ (ward == 1) & (sex == 0) ^ (rng.uniform(size=n) < 0.1)
    return pa.table(
        {
            "age": age,
            "ward": np.array(["a", "b", "c"])[ward],
            "sex": np.array(["f", "m"])[sex],
            "ill": np.array(["no", "yes"])[ill.astype(int)],
        }
    )


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes; None takes a key out."""
    plan = {"epsilon": 8.0, "n_splits": 12, "max_depth": 4} | changes.pop("plan", {})
    timeouts = {"join": 60.0, "answer": 60.0} | changes.pop("timeouts", {})
    made = {
        "name": "wards",
        "kind": "topdown",
        "population": "patients",
        "owners": list(OWNERS),
        "timeouts": timeouts,
        "plan": {key: value for key, value in plan.items() if value is not None},
        "domain": DOMAIN.to_dict(),
    } | changes
    return {key: value for key, value in made.items() if value is not None}


def make_job(**changes: Any) -> TopDownJob:
    return TopDownJob.model_validate(job_dict(**changes))


class Town:
    """A coordinator and owners, with a table each; policies allow what tests need."""

    def __init__(
        self,
        root: Path,
        owners: tuple[str, ...] = OWNERS,
        rows: int = 200,
        servers: tuple[str, ...] = (),
    ) -> None:
        self.root, self.owners, self.servers = root, owners, servers
        first = free_ports()
        members = list_members(servers, owners, coordinator="delta", first_port=first)
        found_consortium(root, "wards", members, {"patients": 10.0})
        self.parties = {
            name: PartyConfig.load(root / "wards" / name) for name in (*servers, *owners, "delta")
        }
        introduce(self.parties)
        for name in (*servers, *owners):
            self.allow(name, largest_epsilon_per_job="10.0")
        for number, name in enumerate(owners):
            pyarrow.csv.write_csv(people(rows, number), self.table(name))
        self.processes: list[subprocess.Popen[str]] = []

    def table(self, name: str) -> Path:
        return self.root / f"{name}.csv"

    def allow(self, name: str, **lines: str) -> None:
        """Change lines of a policy."""
        path = self.parties[name].folder / "policy.toml"
        text = path.read_text().splitlines()
        for key, value in lines.items():
            text = [f"{key} = {value}" if one.startswith(f"{key} =") else one for one in text]
        path.write_text("\n".join(text) + "\n")

    def allow_seeds(self) -> None:
        """Let everybody draw repeatable noise, which is not private."""
        for name in (*self.servers, *self.owners):
            self.allow(name, allow_exact="true", patients="inf")

    def policy(self, name: str) -> Policy:
        return Policy.load(self.parties[name].folder)

    def write(self, job: TopDownJob, name: str = "job.toml") -> Path:
        path = self.root / name
        path.write_text(job.to_toml())
        return path

    def reference(self, job: TopDownJob) -> Tree:
        """Grow the tree in this process, with the same seeds."""
        return grow_topdown(job.make_plan(), self.in_process(job))[0]

    def secure_reference(self, job: TopDownJob) -> Tree:
        """Grow the tree of three servers in this process, with the same seed."""
        tables = {name: encoded_table(self.table(name), job.domain) for name in job.owners}
        return run_topdown(job.make_plan(), tables, engine="simulate", seed=SERVER_SEED).tree

    def in_process(self, job: TopDownJob) -> dict[str, Owner]:
        return {
            name: Owner(
                encoded_table(self.table(name), job.domain),
                job.make_plan(),
                name=name,
                source=NoiseSource.insecure_seeded(SEEDS[name]),
            )
            for name in job.owners
        }

    def without(self, job: TopDownJob, name: str, number: int) -> Tree:
        """Grow the tree in this process, with one owner lost in a round."""
        owners = self.in_process(job)
        coordinator = Coordinator(job.make_plan(), job.owners)
        while asks := coordinator.asks():
            for each, ask in asks.items():
                if each == name and coordinator.round >= number:
                    continue
                coordinator.hear(each, owners[each].answer(ask))
            if coordinator.asks().keys() == {name} and coordinator.round >= number:
                coordinator.drop(name)
        return coordinator.tree()

    def start(self, party: str, verb: str, job: Path, *options: object) -> subprocess.Popen[str]:
        """Start a command of a party as a process; its lines are JSON."""
        process = subprocess.Popen(
            [PROGRAM, "topdown", verb, job, *map(str, options), "--format", "json"],
            cwd=self.parties[party].folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def coordinate(self, job: Path) -> subprocess.Popen[str]:
        """Start the coordinator, and wait until it takes calls."""
        process = self.start("delta", "coordinate", job)
        event_of(process, "carrying")
        return process

    def join(self, name: str, job: Path, *options: object) -> subprocess.Popen[str]:
        seed = ("--insecure-seed", SEEDS[name])
        return self.start(name, "join", job, "--table", self.table(name), *seed, *options)

    def serve(self, name: str, job: Path) -> subprocess.Popen[str]:
        return self.start(name, "serve", job, "--insecure-seed", SERVER_SEED)

    def run_folder(self, party: str, job: TopDownJob) -> Path:
        return self.parties[party].folder / "state" / "topdown" / job.run_id

    def end(self) -> None:
        """End what is still running."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


@contextmanager
def town_in(root: Path, **options: Any) -> Iterator[Town]:
    """Make a town; its processes are ended with it."""
    town = Town(root, **options)
    try:
        yield town
    finally:
        town.end()


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


def same_tree(one: Tree, other: Tree) -> bool:
    return one.to_json() == other.to_json()
