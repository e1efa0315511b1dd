"""A result that is no tree, of a table without a target: admitted, charged, run, published."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.meeting import listen
from hedgerow.parties.consortium import policy as policies
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries.asking import Analyst, KnownModel
from hedgerow.parties.roles.catalogue import Catalogue, ModelsFields
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs import admission, worker
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.runs.worker import RunWorker
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.models import open_model
from hedgerow.parties.wire.client import Reply
from hedgerow.parties.wire.handlers import Caller
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from tests.parties.roles.upload_servers import (
    DOMAIN,
    SERVERS,
    consortium,
    people,
    serving,
    write_csv,
)
from tests.parties.runs.party_jobs import make_job
from tests.parties.runs.run_servers import set_line
from tests.parties.wire.parties_calls import refuses
from tests.protocols.record_count import RECORDS, CountProtocol

BARE = DOMAIN.select(DOMAIN.names, target=False)
ROWS = 60
HUGE = 40.0
"""An epsilon at which noise moves a count with a probability of 2 exp(-40)."""


class Unwritable(CountProtocol):
    """Returns what JSON does not know."""

    def train(self, *args: Any) -> Any:
        made = super().train(*args)
        return type(made)({}, {"records": {made.public["records"]}})


class Trio:
    """Three servers with an upload, whose runs are begun by hand."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, columns: bool) -> None:
        monkeypatch.setitem(SERVER_PROTOCOLS, "count", CountProtocol())
        monkeypatch.setattr(policies, "PROTOCOLS", (*policies.PROTOCOLS, "count"))
        parties = consortium(folder)
        for name in (*SERVERS, "north"):
            place = parties[name].folder / "policy.toml"
            set_line(place, "allowed_protocols", '["count"]')
            set_line(place, "largest_epsilon_per_job", f"{HUGE}")
            set_line(place, "patients", f"{HUGE}")
        self.analyst = parties["zoe"]
        self.configs = [parties[name] for name in SERVERS]
        self.attempts = 0
        table = write_csv(folder / "people.csv", people(ROWS))
        with serving(parties):
            upload = {"id": "north-1", "population": "patients"}
            share_upload(parties["north"], table, DOMAIN if columns else BARE, **upload)

    def accept(self, job: ServerJob) -> None:
        """Do what a server does with a job that is posted, and once all are ready."""
        for config in self.configs:
            policy = Policy.load(config.folder)
            accounts = Accounts(config.state, policy)
            admission.admit(job, "north", config, policy, accounts)
            RunStore(config.state).accept(job, "north")
            admission.charge(job, config, accounts)

    def attempt(self, job: ServerJob) -> list[BaseException | None]:
        """Let all three work; return what each has ended with."""
        self.attempts += 1
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda config: self._work(job, config), self.configs))

    def finish(self, job: ServerJob) -> list[BaseException | None]:
        """Attempt again as daemons do, where a line or a port was not there in time."""
        for _ in range(3):
            ended = self.attempt(job)
            if not any(isinstance(e, HedgerowError) and e.code in worker._AGAIN for e in ended):
                break
        return ended

    def spent(self) -> list[list[float]]:
        """Return what every account was charged."""
        found = []
        for config in self.configs:
            accounts = Accounts(config.state, Policy.load(config.folder))
            found.append([charge.epsilon for charge in accounts.spent("patients").charges])
        return found

    def known(self, job: ServerJob) -> KnownModel:
        """Return what the servers tell an analyst of the model."""
        replies = []
        for number, config in enumerate(self.configs):
            key = operator_key(config.folder)
            library = Library(config.state, key, number)
            catalogue = Catalogue(config, Policy.load(config.folder), key, library)
            caller = Caller("zoe", "analyst")
            fields, payload = catalogue.models(caller, ModelsFields(model=job.model))
            replies.append(Reply(fields, b"".join(payload)))
        return KnownModel.parse(job.model, replies)

    def _work(self, job: ServerJob, config: PartyConfig) -> BaseException | None:
        session = self.attempts.to_bytes(16, "big")
        try:
            listener = listen(config.me.host, config.me.run_port)
            RunWorker(config.folder, job.run_id, self.attempts, session, listener, SERVERS).work()
        except Exception as error:
            return error
        return None


def count_job(domain: Any = BARE) -> ServerJob:
    plan = {"max_depth": None, "epsilon": HUGE}
    return make_job(
        protocol="count", uploads=["north-1"], analysts=[], plan=plan, domain=domain.to_dict()
    )


@pytest.fixture(params=[False, True], ids=["no target", "a target that is not looked at"])
def columns(request: pytest.FixtureRequest) -> bool:
    return request.param


def test_a_number_goes_all_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: bool
) -> None:
    trio, job = Trio(tmp_path, monkeypatch, columns), count_job(DOMAIN if columns else BARE)
    trio.accept(job)
    assert trio.finish(job) == [None] * 3
    stored = [open_model(c.state, operator_key(c.folder), job.model) for c in trio.configs]
    assert [one.tree["records"] for one in stored] == [ROWS] * 3
    assert len({json.dumps(one.tree) for one in stored}) == 1
    assert stored[0].read_ledger().total("public").epsilon == pytest.approx(HUGE)
    assert trio.spent() == [[HUGE]] * 3
    known = trio.known(job)
    assert known.document["records"] == ROWS
    assert known.document["privacy"] == json.loads(stored[0].ledger)
    assert known.tree is None
    # There is nothing to ask.
    rows = people(3).drop_columns(["id", "ill"])
    error = refuses(Code.BAD_PARAMETER, lambda: Analyst(trio.analyst).ask(known, rows))
    assert "'count'" in error.found


def test_what_cannot_be_published_is_found_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trio, job = Trio(tmp_path, monkeypatch, columns=False), count_job()
    trio.accept(job)
    monkeypatch.setitem(SERVER_PROTOCOLS, "count", Unwritable())
    assert [type(error) for error in trio.attempt(job)] == [TypeError] * 3
    for config in trio.configs:
        # No release was charged, no stage kept and so nothing opened.
        ledger = DurableLedger(open_store(config.state), job.run_id, domain=BARE)
        assert ledger.charged(RECORDS) == 0
        assert not list((config.state.path("runs", job.run_id) / "stages").iterdir())
    # With the software mended, the same run goes on under the same charge.
    monkeypatch.setitem(SERVER_PROTOCOLS, "count", CountProtocol())
    assert trio.finish(job) == [None] * 3
    assert trio.known(job).document["records"] == ROWS
    assert trio.spent() == [[HUGE]] * 3
