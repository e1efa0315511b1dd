"""Three servers in this process, whose runs have no workers, and an owner, for tests."""

from pathlib import Path
from typing import Any

from hedgerow.net.port import RunPort
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.catalogue import ChargeVerbs
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.accounts import Accounts, balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.uploads import UploadVerbs
from hedgerow.parties.wire.handlers import Verb, declared_verbs
from hedgerow.parties.wire.service import Service
from tests.parties.roles.upload_servers import DOMAIN, SERVERS, consortium, people, write_csv
from tests.parties.runs.loopback import IdleWorker
from tests.parties.runs.party_jobs import make_job
from tests.parties.runs.run_servers import set_line


class Manager(RunManager):
    """A manager whose workers do nothing; nobody calls at its port."""

    def __init__(self, config: PartyConfig) -> None:
        with RunPort(config.me.host, 0) as port:
            super().__init__(config, Policy.load(config.folder), port)

    def _spawn(self, run: Any, attempt: int, session: bytes, members: Any) -> None:
        del session, members
        self._child = IdleWorker(run.id, attempt)  # type: ignore[assignment]


class Wards:
    """Three servers over TLS in this process, which let zoe post, and an upload of north."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.parties = folder, consortium(folder)
        self.north = self.parties["north"]
        for name in (*SERVERS, "north"):
            set_line(self.policy_file(name), "allowed_posters", '["north", "zoe"]')
            set_line(self.policy_file(name), "largest_epsilon_per_job", "3.0")
        self.services: dict[str, Service] = {}
        self.managers = {name: Manager(self.parties[name]) for name in SERVERS}

    def policy_file(self, name: str) -> Path:
        return self.parties[name].folder / "policy.toml"

    def verbs(self, config: PartyConfig) -> dict[str, Verb]:
        made = self.managers[config.name]
        uploads = UploadVerbs(config, made.policy, operator_key(config.folder), made.store)
        charges = ChargeVerbs(made.accounts, made.store)
        return {
            k: v for o in (uploads, charges, RunVerbs(made)) for k, v in declared_verbs(o).items()
        }

    def upload(self, id: str = "north-1", seed: int = 0, **options: Any):
        path = write_csv(self.folder / f"{id}.csv", people(seed=seed))
        options = {"population": "patients", "id": id} | options
        return share_upload(self.north, path, DOMAIN, **options)

    def post(self, job: ServerJob, by: str = "zoe") -> str:
        return RunClient(self.parties[by]).post(job)

    def go(self, job: ServerJob, attempt: int = 1) -> None:
        """Let all servers begin, which charges the job, and their workers end well."""
        for made in self.managers.values():
            made.go(job.run_id, job.hash, attempt, bytes(16), SERVERS, SERVERS[0])
        for made in self.managers.values():
            assert made._child is not None
            made._on_end(made._child)

    def spent(self, name: str) -> float:
        config = self.parties[name]
        return Accounts(config.state, Policy.load(config.folder)).spent("patients").epsilon

    def accounts(self) -> Accounts:
        return Accounts(self.north.state, Policy.load(self.north.folder))

    def promised(self) -> tuple[float, float] | None:
        (balance,) = balances_in(self.north.folder)
        return balance.promised

    def trail(self, name: str) -> list[str]:
        with open_store(self.parties[name].state).snapshot() as made:
            return [entry.kind for entry in made.trail()]


def one(name: str = "one", **changes: Any) -> ServerJob:
    fields = {"name": name, "model": f"{name}-model", "uploads": ["north-1"]}
    return make_job(**fields | changes)
