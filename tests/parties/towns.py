"""A consortium on this machine whose members are processes of ``hedgerow serve``, for all roles."""

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.consortium.links import Links, reroute
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.founding import found_consortium, list_members
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.models import StoredModel, open_model
from tests.parties.consortia import introduce, stray_files
from tests.parties.forks import Program, run_command
from tests.parties.free_ports import free_ports

PATIENCE = 240.0
"""Seconds for what comes to pass in a few, however loaded the machine is."""


class Town:
    """Members by name; what is started here ends with it.

    `links`: through which everybody calls everybody, if they can be cut. `away`: who was killed and
    is not to be started again yet.
    """

    def __init__(
        self,
        root: Path,
        *,
        servers: Sequence[str] = (),
        owners: Sequence[str] = (),
        analysts: Sequence[str] = (),
        coordinator: str = "",
        sites: Sequence[str] = (),
        peers: Sequence[str] = (),
        populations: dict[str, float] | None = None,
        rejoin: float = 90.0,
        step: float = 90.0,
        linked: bool = False,
        **policy: Any,
    ) -> None:
        self.root = root
        members = list_members(
            servers,
            owners,
            analysts,
            coordinator=coordinator,
            sites=sites,
            peers=peers,
            first_port=free_ports(),
        )
        found_consortium(root, "town", members, populations or {"patients": 10.0}, policy=policy)
        self.parties: dict[str, PartyConfig] = {}
        for member in members:
            path = root / "town" / member.name / "party.toml"
            text = path.read_text()
            for key, value in (("rejoin", rejoin), ("step", step)):
                text = re.sub(rf"^{key} = [0-9.]+", f"{key} = {value:g}", text, flags=re.M)
            path.write_text(text)
            self.parties[member.name] = PartyConfig.load(path.parent)
        introduce(self.parties)
        self.links: Links | None = None
        if linked:
            ports = {member.name: member.ports for member in members if member.takes_calls}
            self.links = Links(ports, list(self.parties)).__enter__()
            self.parties = {
                name: reroute(config, self.links.doors) for name, config in self.parties.items()
            }
        self.serving = [m.name for m in members if m.role != "analyst"]
        self.processes: dict[str, Program] = {}
        self.away: set[str] = set()

    def start(self, *names: str, **environment: str) -> None:
        """Let parties serve, by default all of them; return when those who take calls answer."""
        for name in names or self.serving:
            arguments = ["serve", str(self.parties[name].folder)]
            self.processes[name] = Program(arguments, self.root / f"{name}.err", environment)
        for name in names or self.serving:
            self.until(lambda name=name: self.is_serving(name), f"{name} to serve")

    def is_serving(self, name: str) -> bool:
        """Whether a party takes part; one that was killed as it began is for `restart_dead`."""
        if (code := self.processes[name].poll()) is not None:
            assert code == -signal.SIGKILL, self.log(name)
            return True
        path = self.root / f"{name}.err"
        return path.exists() and b" serves " in path.read_bytes()

    def kill(self, name: str) -> None:
        """End a party as a power cut does; its worker goes with it."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (self.root / f"{name}.err").unlink()

    def stop(self) -> None:
        self._end()
        if self.links is not None:
            self.links.__exit__(None, None, None)
        for config in self.parties.values():
            assert stray_files(config.folder) == []

    def _end(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.end()

    def restart(self) -> None:
        """Stop whoever serves, and start it again."""
        names = list(self.processes)
        self._end()
        for name in names:
            (self.root / f"{name}.err").unlink()
        self.start(*names)

    def command(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder of a party."""
        return run_command(arguments, self.parties[name].folder, PATIENCE)

    def write(self, job: Job) -> Path:
        path = self.root / f"{job.name}.toml"
        path.write_text(job.to_toml())
        return path

    def client(self, name: str) -> RunClient:
        return RunClient(self.parties[name])

    def post(self, job: Job, by: str) -> str:
        return self.client(by).post(job)

    def post_again(self, job: Job, by: str, again: Callable[..., None]) -> str:
        """Post a job to whoever is there, until all have it; a poster may be cut off."""

        def posted() -> bool:
            self.restart_dead(again)
            try:
                self.post(job, by)
            except HedgerowError as error:
                if error.code not in (Code.SERVICE_UNREACHABLE, Code.REQUEST_CUT_OFF):
                    raise
                return False
            return True

        self.until(posted, f"{job.name} to be posted")
        return job.run_id

    def restart_dead(self, start: Callable[..., None]) -> None:
        """Start again who was killed from within."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None and name not in self.away:
                assert process.poll() == -signal.SIGKILL, self.log(name)
                del self.processes[name]
                (self.root / f"{name}.err").unlink()
                start(name)

    def states(self, run: str, *names: str) -> dict[str, str]:
        """Return the state of a run as the store of every party has it."""
        found = {}
        for name in names or self.serving:
            known = RunStore(self.parties[name].state).find(run)
            found[name] = "unknown" if known is None else known.state
        return found

    def until_state(self, run: str, state: str, *names: str) -> None:
        def reached() -> bool:
            found = self.states(run, *names)
            if state != "failed":
                assert "failed" not in found.values(), self.errors(run)
            return set(found.values()) == {state}

        self.until(reached, f"run {run} to be {state}")

    def until_closed(self, run: str, *names: str) -> None:
        """Wait until parties know that all others are done too; then nothing is kept of the way."""

        def reached() -> bool:
            found = [RunStore(self.parties[name].state).find(run) for name in names]
            return all(known is not None and known.closed for known in found)

        self.until(reached, f"run {run} to be closed")

    def errors(self, run: str) -> dict[str, str]:
        found = {}
        for name in self.serving:
            known = RunStore(self.parties[name].state).find(run)
            found[name] = "" if known is None else str(known.error)
        return found

    def model(self, name: str, model: str, key: bytes | None = None) -> StoredModel:
        return open_model(self.parties[name].state, key, model)

    def policy(self, name: str) -> Policy:
        return Policy.load(self.parties[name].folder)

    def log(self, name: str) -> str:
        path = self.parties[name].folder / "state" / "log.jsonl"
        lines = path.read_text()[-2000:] if path.exists() else ""
        for worker in self.parties[name].folder.glob("state/runs/*/worker.log"):
            lines += f"\n{worker.name}: {worker.read_text()[-3000:]}"
        path = self.root / f"{name}.err"
        return lines + (path.read_text()[-2000:] if path.exists() else "")

    def until(self, reached: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not reached():
            if time.monotonic() > end:
                said = "\n".join(f"{name}: {self.log(name)}" for name in self.processes)
                raise AssertionError(f"waited in vain for {what}\n{said}")
            time.sleep(0.05)


@contextlib.contextmanager
def town_in(root: Path, **options: Any) -> Iterator[Town]:
    """Make a town; its processes are ended with it."""
    town = Town(root, **options)
    try:
        yield town
    finally:
        town.stop()


def set_line(path: Path, key: str, value: str) -> None:
    """Set one option of a TOML file."""
    text, times = re.subn(rf"^{key} = [^\n]*", f"{key} = {value}", path.read_text(), flags=re.M)
    assert times == 1, key
    path.write_text(text)


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the last line of a command that must end well."""
    assert done.returncode == 0, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
