"""One charge, one draw, whatever a party claims: between daemons, for every stage it can name.

The liar's worker (`liars`) reads what is opened and ends without a word; from the next attempt on
it claims an earlier stage, a later one, or one that nobody knows, or comes back with an older
database. The others refuse, or open what was drawn before.
"""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.runs.store import RunStore
from hedgerow.parties.store.accounts import balances_in
from tests.everywhere.liars import LATER, ORDERS, SEEN, UNKNOWN
from tests.everywhere.runtimes import ROOT, Everybody, server_case
from tests.parties.topdown import topdown_jobs
from tests.parties.towns import PATIENCE
from tests.parties.vertical import peer_towns, site_towns

LYING = Path(__file__).parent / "lying"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LiarsTown"]:
    made = LiarsTown(tmp_path_factory.mktemp("town"))
    try:
        yield made
    finally:
        made.stop()


class LiarsTown(Everybody):
    """A consortium in which one member may lie."""

    is_shared = False

    def start(self, *names: str, **environment: str) -> None:
        if not names:
            return
        before = filter(None, [os.environ.get("PYTHONPATH")])
        path = os.pathsep.join([str(LYING), str(ROOT), *before])
        super().start(*names, **environment, PYTHONPATH=path)

    def meet(self, job: Job) -> None:
        """Let those serve who take part in a job, and have what it needs."""
        self.start(*[name for name in self.members(job) if name not in self.processes])
        if isinstance(job, ServerJob) and not self.is_shared:
            self.upload()
            self.is_shared = True

    def lie(self, name: str, **orders: Any) -> None:
        folder = self.parties[name].folder
        (folder / SEEN).unlink(missing_ok=True)
        (folder / ORDERS).write_text(json.dumps(orders))

    def seen(self, name: str) -> dict[str, set[str]]:
        """Return the values that the liar has read, by what they are."""
        found: dict[str, set[str]] = defaultdict(set)
        path = self.parties[name].folder / SEEN
        for line in path.read_text().splitlines() if path.exists() else ():
            _, what, value = json.loads(line)
            found[json.dumps(what)].add(json.dumps(value))
        return found

    def attempts(self, name: str) -> set[int]:
        lines = (self.parties[name].folder / SEEN).read_text().splitlines()
        return {json.loads(line)[0] for line in lines}

    def run_out(self, job: Job, liar: str, by: str, attempts: int = 4) -> None:
        """Post a job and let the liar try, until it is refused or has tried often enough."""
        self.meet(job)
        run = self.post(job, by)
        others = [name for name in self.members(job) if name != liar]

        def over() -> bool:
            states = self.states(run, *others).values()
            tried = RunStore(self.parties[others[0]].state).find(run)
            return not set(states) <= {"accepted", "running", "waiting", "unknown"} or (
                tried is not None and tried.attempt > attempts
            )

        self.until(over, f"{liar} to be found out in {job.name}", 2 * PATIENCE)
        (self.parties[liar].folder / ORDERS).unlink()
        if not {"failed", "done"} & set(self.states(run, *others).values()):
            self.client(by).stop(run)

    def check_one_draw(self, liar: str) -> None:
        seen = self.seen(liar)
        assert seen
        for what, values in seen.items():
            assert len(values) == 1, f"{len(values)} draws of {what} for one charge"

    def check_one_charge(self, job: Job) -> None:
        for name in self.members(job):
            for balance in balances_in(self.parties[name].folder):
                keys = [charge.key for charge in balance.spent.charges]
                assert keys.count(job.account_key) <= 1, name


def claims_of_stages() -> Iterator[Any]:
    """Yield what a server reads before it ends, and every number of stages it can claim then."""
    for first in ("", "before it confirms"):
        for read in (1, 2):
            for claim in (*range(read + 1), LATER, UNKNOWN):
                yield first, read, claim


@pytest.mark.parametrize(("first", "read", "claim"), list(claims_of_stages()))
def test_a_server_of_an_open_tree(town: LiarsTown, first: str, read: int, claim: Any) -> None:
    case = server_case("open-tree", "", epsilon=1.0, max_depth=1)
    name = f"open-{read}-{claim}-{len(first)}"
    job = case.job.model_copy(update={"name": name, "model": name})
    town.lie("cedar", of="server", read=read, claim=claim, first=first)
    town.run_out(job, "cedar", "north")
    town.check_one_draw("cedar")
    if claim not in (read, LATER):
        # Values may be alike by chance: who denies what it has read is shown nothing any more.
        assert len(town.attempts("cedar")) == 1
    town.check_one_charge(job)


@pytest.mark.parametrize("claim", [0, 1, 2, LATER, UNKNOWN])
def test_a_peer(town: LiarsTown, claim: Any) -> None:
    """The first stage has its rows, the others what was opened; nothing of it has noise."""
    name = f"peer-{claim}"
    job = peer_towns.make_job(name=name, plan={"max_depth": 1})
    town.lie("rook", of="server", read=2, claim=claim, first="")
    town.run_out(job, "rook", "wren")
    town.check_one_draw("rook")
    if claim in (0, 1, 2, UNKNOWN):
        # Three stages were confirmed: who denies one is shown nothing any more.
        assert len(town.attempts("rook")) == 1
    town.check_one_charge(job)


STAGES = [
    (stage, tag) for stage in ("FRESH", "KEPT", "OPENING", "OPENED") for tag in ("known", "?")
]


@pytest.mark.parametrize("claim", STAGES, ids=map("-".join, STAGES))
def test_a_server_of_secret_counts(town: LiarsTown, claim: tuple[str, str]) -> None:
    """Eight draws of the number of records would come to the number itself, for one charge."""
    plan = {"method": "secure-counts", "epsilon": 2.0, "n_splits": 1, "max_depth": 1}
    job = topdown_jobs.make_job(name=f"secure-{'-'.join(claim).lower().strip('?-')}", plan=plan)
    town.lie("cedar", of="server", read=2, claim=list(claim))
    town.run_out(job, "cedar", "north")
    town.check_one_draw("cedar")
    if claim[0] == "FRESH" or claim[1] != "known":
        assert town.attempts("cedar") == {1}
    town.check_one_charge(job)


@pytest.mark.parametrize("claim", [0, 1, 2, 3, 4, LATER])
def test_a_coordinator(town: LiarsTown, claim: Any) -> None:
    plan = {"epsilon": 2.0, "n_splits": 2, "max_depth": 2}
    job = topdown_jobs.make_job(name=f"coordinator-{claim}", plan=plan)
    town.lie("delta", of="coordinator", read=4, claim=claim)
    town.run_out(job, "delta", "north")
    town.check_one_draw("delta")
    town.check_one_charge(job)


@pytest.mark.parametrize("claim", [0, 1, 3, 5, LATER])
@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
def test_a_site(town: LiarsTown, cardinality: str, claim: Any) -> None:
    noise = {"epsilon": 8.0, "max_depth": 1}
    name = f"{cardinality}-{claim}"
    job = site_towns.make_job(name=name, cardinality=cardinality, **noise)
    town.lie("observatory", of="site", read=6, claim=claim)
    town.run_out(job, "observatory", "office")
    town.check_one_draw("observatory")
    town.check_one_charge(job)


@pytest.mark.parametrize(
    ("liar", "of"),
    [
        ("cedar", "server"),
        ("delta", "coordinator"),
        ("observatory", "site"),
        ("rook", "peer"),
    ],
)
def test_a_database_that_was_set_back(town: LiarsTown, liar: str, of: str, tmp_path: Path) -> None:
    """It knows of nothing that the others have met it about: H936, before anything is drawn."""
    jobs = {
        "server": server_case("open-tree", "", epsilon=1.0, max_depth=1).job,
        "coordinator": topdown_jobs.make_job(plan={"epsilon": 2.0, "n_splits": 2, "max_depth": 2}),
        "site": site_towns.make_job(epsilon=8.0, max_depth=1),
        "peer": peer_towns.make_job(plan={"max_depth": 1}),
    }
    job = jobs[of].model_copy(update={"name": f"set-back-{of}"})
    by = {"site": "office", "peer": "wren"}.get(of, "north")
    state = town.parties[liar].folder / "state"
    town.meet(job)
    town.kill(liar)
    shutil.copytree(state, tmp_path / "older")
    town.start(liar)
    town.lie(liar, of=of, read=1, claim=None, alone=True)
    run = town.post(job, by)
    town.until(lambda: town.processes[liar].poll() is not None, f"{liar} to end")
    town.processes.pop(liar).wait()
    (town.root / f"{liar}.err").unlink()
    shutil.rmtree(state)
    shutil.copytree(tmp_path / "older", state)
    town.start(liar)

    def refused() -> bool:
        # Those who take calls say so at once, the others when they have waited for it in vain.
        found = {name: str(one) for name, one in town.client(by).show(run).items()}
        others = town.errors(run) | found
        return any("H936" in text for name, text in others.items() if name != liar)

    town.until(refused, f"{liar} to be refused")
    town.check_one_draw(liar)
    assert town.attempts(liar) == {1}
    town.check_one_charge(job)
    (town.parties[liar].folder / ORDERS).unlink()
