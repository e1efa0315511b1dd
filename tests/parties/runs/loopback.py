"""Managers of the three servers that ask each other without a wire; no worker is started."""

import shutil
from pathlib import Path
from typing import Any

from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.peers import Peers
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.database import FILE, open_store
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.handlers import Caller, Incoming, declared_verbs
from hedgerow.parties.wire.inbox import Inbox
from hedgerow.parties.wire.requests import Fields
from tests.parties.roles.upload_servers import SERVERS, consortium
from tests.parties.runs.party_jobs import make_manifest
from tests.parties.runs.run_servers import job, set_line


class IdleWorker:
    """A worker that ends when the test says so."""

    def __init__(self, run: str, attempt: int) -> None:
        self.run, self.attempt, self.pid = run, attempt, 0
        self.met, self.again, self.done, self.stages = True, True, True, 1
        self.error = None

    def kill(self) -> None:
        """There is no process."""


class _Manager(RunManager):
    def _spawn(self, run: Any, attempt: int, session: bytes, members: Any) -> None:
        del session, members
        self._child = IdleWorker(run.id, attempt)  # type: ignore[assignment]


class _Peers(Peers):
    """Requests go to the verbs of the other manager, with their fields checked as on the wire."""

    def __init__(self, at: RunManager, loopback: "Loopback") -> None:
        super().__init__(at.config, Inbox(), at.store.trails)
        self.loopback = loopback

    def _ask(self, member: Member, verb: str, fields: Fields, payload: bytes = b"") -> Reply:
        self.loopback.asked.append((self._config.name, member.name, verb))
        found = declared_verbs(RunVerbs(self.loopback.managers[member.name]))[verb]
        me = self._config.me
        told, _ = found.function(
            Caller(me.name, me.role),
            found.fields.model_validate(fields),
            Incoming(len(payload), lambda: payload),
        )
        return Reply(told, b"")


class Loopback:
    """Three servers with a real store each; `asked` are their requests: who, whom, what."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parties = folder, consortium(folder)
        self.asked: list[tuple[str, str, str]] = []
        self.managers: dict[str, RunManager] = {}
        for name in SERVERS:
            config = self.parties[name]
            lines = config.folder / "policy.toml"
            set_line(lines, "allow_exact", "true")
            set_line(lines, "patients", "inf")
            set_line(lines, "allowed_protocols", '["hidden-tree"]')
            with open_store(config.state).transaction("upload") as made:
                made.put_upload("north-1", make_manifest().to_json())
            self.start(name)

    def start(self, name: str) -> RunManager:
        """Start a manager; what it knows is read from the disk."""
        config: PartyConfig = self.parties[name]
        with RunPort(config.me.host, 0) as port:
            made = _Manager(config, Policy.load(config.folder), port)
        made._peers = _Peers(made, self)
        self.managers[name] = made
        return made

    def database(self, name: str) -> Path:
        """Return the database of a server, which is stopped and has written it all."""
        config = self.parties[name]
        open_store(config.state).close()
        return config.state.path(FILE)

    def copy_state(self, name: str, copy: str) -> None:
        """Keep a copy of what a server knows, and start it again."""
        shutil.copy(self.database(name), self.folder / copy)
        self.start(name)

    def restore_state(self, name: str, copy: str) -> RunManager:
        """Put a copy back in the place of what a server knows."""
        shutil.copy(self.folder / copy, self.database(name))
        return self.start(name)

    def look(self) -> None:
        """Let every server look at its open runs once."""
        for made in self.managers.values():
            made._refuse_unapproved()
            runs = [run for run in made.store.all() if run.is_open]
            made._lead([run for run in runs if made._leads(run.job)])
            made._follow([run for run in runs if not made._leads(run.job)])

    def end_workers(self, *, done: bool = True) -> None:
        """Let all workers end, well or for another attempt."""
        for made in self.managers.values():
            if made._child is not None:
                made._child.done = done
                made._on_end(made._child)

    def post(self, name: str, *parties: str) -> str:
        """Post a job to all."""
        for party in parties or SERVERS:
            self.managers[party].accept(job(name).to_toml(), "north")
        return job(name).run_id

    def complete(self, name: str) -> str:
        """Let a run begin, end well, and be closed by all."""
        run = self.post(name)
        self.look()
        self.end_workers()
        self.look()
        self.look()
        assert {made.show(run)["closed"] for made in self.managers.values()} == {True}
        return run
