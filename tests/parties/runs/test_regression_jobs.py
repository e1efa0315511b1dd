"""Jobs of numbers and of boosting, from uploads to answers, with servers that are processes."""

import json
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries.asking import Analyst
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.accounts import Accounts
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.models import StoredModel, open_model
from hedgerow.parties.wire.client import call_member
from hedgerow.protocols.contract import guarantees
from hedgerow.protocols.run import ask, train
from hedgerow.protocols.sharing.integrate import by_rows
from hedgerow.tables import Encoded, Target, encode
from tests.parties.cli_town import ANALYST, OWNERS, SERVERS, CliTown
from tests.parties.forks import fork
from tests.parties.roles.upload_servers import DOMAIN, consortium, people, write_csv
from tests.parties.runs.run_daemon import serve_all
from tests.parties.runs.run_servers import set_line
from tests.parties.wire.parties_calls import refuses

ROWS, ASKED, PATIENCE = 60, 25, 240.0
COST = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0.0, 80.0))})
ROUNDS = 6
JOBS: dict[str, dict[str, Any]] = {
    "costs": {"protocol": "hidden-regression", "plan": {"noise": "none", "max_depth": 2}},
    "noisy": {"protocol": "hidden-regression", "plan": {"epsilon": 0.9, "max_depth": 2}},
    "odds": {
        "protocol": "hidden-boosting",
        "plan": {"noise": "none", "max_depth": 1, "n_rounds": 2},
    },
    "killed": {
        "protocol": "hidden-boosting",
        "plan": {"epsilon": 0.8, "max_depth": 1, "n_rounds": ROUNDS, "learning_rate": 0.4},
    },
}


def patients(owner: int) -> pa.Table:
    """Return people with what they cost, beyond the upper bound in places."""
    table = people(ROWS, seed=owner)
    rng = np.random.default_rng(owner)
    age, ill = table.column("age").to_numpy(), np.array(table.column("ill").to_pylist()) == "yes"
    cost = np.round(age / 2 + 40 * ill + rng.normal(0, 3, ROWS), 2)
    return table.append_column("cost", pa.array(cost))


def job(name: str) -> ServerJob:
    ill = name == "odds"
    fields = {
        "name": name,
        "model": f"{name}-1",
        "population": "patients",
        "uploads": [f"{owner}-{'ill' if ill else 'cost'}" for owner in OWNERS],
        "analysts": [ANALYST],
        "domain": (DOMAIN if ill else COST).to_dict(),
        **JOBS[name],
    }
    fields["plan"] = fields["plan"] | {"capacity": 2 * ROWS}
    return ServerJob.model_validate(fields)


class Town(CliTown):
    """A consortium whose folders were made here; servers and some commands are processes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.servers: dict[str, BaseProcess] = {}

    def start(self, *names: str) -> None:
        for name in names or SERVERS:
            self.servers[name] = fork(serve_all, self.home / name)
        client = RunClient(self.parties["north"])
        end = time.monotonic() + PATIENCE
        while any(isinstance(told, HedgerowError) for told in client.list().values()):
            assert time.monotonic() < end, self.logs()
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        self.servers[name].kill()
        self.servers[name].join()

    def found(self) -> None:
        self.parties = consortium(self.root)
        for name in (*SERVERS, *OWNERS):
            policy = self.parties[name].folder / "policy.toml"
            set_line(policy, "allow_exact", "true")
            set_line(policy, "patients", "inf")

    def upload(self) -> None:
        for number, owner in enumerate(OWNERS):
            path = write_csv(self.root / f"{owner}.csv", patients(number))
            for domain in (DOMAIN, COST):
                id = f"{owner}-{domain.target.name}"
                config = self.parties[owner]
                share_upload(config, path, domain, id=id, population="patients", slots=ROWS)

    def wait(self, run: str) -> Any:
        end = time.monotonic() + PATIENCE
        for status in RunClient(self.parties["north"]).watch(run, pause=0.2):
            assert status.state != "failed", (status, self.logs())
            assert time.monotonic() < end, (status, self.logs())
        return status

    def stored(self, server: str, name: str) -> StoredModel:
        config = self.parties[server]
        return open_model(config.state, operator_key(config.folder), f"{name}-1")

    def ask(self, name: str, **options: Any) -> Any:
        return Analyst(self.parties[ANALYST]).ask(f"{name}-1", asked(), **options)

    def ledger_lines(self, server: str, name: str) -> list[Any]:
        with open_store(self.parties[server].state).snapshot() as made:
            rows = made.rows("ledger_lines", run=job(name).run_id)
            return [json.loads(row["line"]) for row in rows]

    def stages(self, server: str, name: str) -> dict[str, bytes]:
        """Return the session in which every stage that counts was made."""
        with open_store(self.parties[server].state).snapshot() as made:
            return {
                row["stage"]: row["session"] for row in made.rows("stages", run=job(name).run_id)
            }


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    made = Town(tmp_path_factory.mktemp("numbers"))
    made.found()
    try:
        made.start()
        made.upload()
        client = RunClient(made.parties["north"])
        for run in [client.post(job(name)) for name in ("costs", "odds")]:
            made.wait(run)
        yield made
    finally:
        for server in made.servers.values():
            server.terminate()
        for server in made.servers.values():
            server.join()


def asked() -> pa.Table:
    return people(ASKED, seed=7).select(["sex", "age", "ward"])


def in_the_clear(name: str, what: str) -> np.ndarray:
    """Train on plain arrays and ask the same rows, without any party."""
    proposed = job(name)
    plan, domain = proposed.make_plan(), proposed.domain
    parts = [encode(patients(number), domain, domain.target.name) for number in range(2)]
    owners = by_rows(plan.layout, [_bare(part, domain) for part in parts], [ROWS, ROWS])
    model, _ = train(proposed.protocol, plan, owners, "clear")
    return ask(model, plan, encode(asked(), domain).bins, what)[0]


def _bare(part: Encoded, domain: Any) -> Encoded:
    return Encoded(domain, part.bins, part.target, part.present)


def test_values_of_a_tree_are_those_of_the_clear(town: Town) -> None:
    expected = in_the_clear("costs", "value")
    path = write_csv(town.root / "rows.csv", asked())
    told = town.by(ANALYST, "query", "costs-1", path)[0]
    found = [row["value"] for row in told["rows"]]
    # 24 bits of half the bounds' width; divisions on shares are off by a few of the last.
    np.testing.assert_allclose(found, expected, rtol=0, atol=40 * 2**-20)
    assert len(set(np.round(found, 3))) == 4
    assert told["left"] == 1000 - ASKED
    check_charges(town, "costs")
    # A number has no probabilities, and the question is not charged.
    error = refuses(Code.BAD_PARAMETER, lambda: town.ask("costs", proba=True))
    assert "'cost', which is a number" in error.expected
    assert Analyst(town.parties[ANALYST]).find("costs-1").left == 1000 - ASKED


def test_classes_of_boosted_trees_are_those_of_the_clear(town: Town) -> None:
    found, scores = town.ask("odds"), in_the_clear("odds", "score")
    np.testing.assert_array_equal(found.index, in_the_clear("odds", "class"))
    assert set(found.labels) == {"no", "yes"}
    likely = town.ask("odds", proba=True)
    np.testing.assert_array_equal(likely.index, found.index)
    np.testing.assert_allclose(likely.shares[:, 1], 1 / (1 + np.exp(-scores[:, 0])), atol=1e-3)
    np.testing.assert_allclose(likely.shares.sum(axis=1), 1)


def check_charges(town: Town, name: str) -> None:
    """The ledger at every server is what the plan says, and was charged once."""
    proposed = job(name)
    expected = proposed.make_plan().ledger()
    for server in SERVERS:
        ledger = town.stored(server, name).read_ledger()
        assert ledger.releases == expected.releases
        assert guarantees(ledger)["analyst"] == proposed.costs()["analyst"]
        charged = [e for e in town.ledger_lines(server, name) if "release" in e]
        assert len(charged) == len(expected.releases)
        config = town.parties[server]
        accounts = Accounts(config.state, Policy.load(config.folder))
        run = f"run {proposed.run_id}"
        spent = [c for c in accounts.spent("patients").charges if c.what == run]
        assert [c.epsilon for c in spent] == [proposed.costs()["analyst"].epsilon]
    assert len({town.stored(server, name).ledger for server in SERVERS}) == 1


@pytest.mark.slow
def test_noise_costs_what_the_plan_says(town: Town) -> None:
    (town.root / "job.toml").write_text(job("noisy").to_toml())
    told = town.by("south", "train", town.root / "job.toml")
    assert told[-1]["state"] == "done"
    check_charges(town, "noisy")
    assert job("noisy").costs()["analyst"].epsilon == pytest.approx(0.9)
    found = town.ask("noisy").values
    assert np.all((found >= 0) & (found <= 80))
    # What was drawn in training is drawn once: the same question has the same answer.
    np.testing.assert_array_equal(town.ask("noisy").values, found)


def test_a_hostile_question_is_refused_by_the_servers(town: Town) -> None:
    """A client that asks a model of numbers for anything else gets no answer, and no charge."""
    analyst = Analyst(town.parties[ANALYST])
    before, alder = analyst.find("costs-1").left, town.parties[ANALYST].servers[0]
    for model, whats in {
        "costs-1": ("class", "distribution", "score"),
        "odds-1": ("distribution", "value"),
    }.items():
        for what in whats:
            fields = {"model": model, "id": "0" * 32, "n": 1, "what": what, "again": False}
            refuses(
                Code.BAD_PARAMETER,
                lambda f=fields: call_member(analyst.config, alder, "query", f, b"\0" * 32),
            )
    assert analyst.find("costs-1").left == before


def test_boosting_goes_on_after_a_kill_and_is_charged_once(town: Town) -> None:
    victim, run = "birch", RunClient(town.parties["north"]).post(job("killed"))
    end = time.monotonic() + PATIENCE
    while len(town.stages(victim, "killed")) < 2:
        assert time.monotonic() < end, town.logs()
        time.sleep(0.01)
    town.kill(victim)
    before = town.stages(victim, "killed")
    assert 2 <= len(before) < ROUNDS
    town.start(victim)
    status = town.wait(run)
    assert (status.state, status.depth) == ("done", ROUNDS)
    assert status.attempt > 1
    # Rounds that all servers had are those of the first attempt; the others came later.
    for server in SERVERS:
        after = town.stages(server, "killed")
        assert list(after) == [f"round {turn}" for turn in range(ROUNDS)] + ["model"]
        assert len(set(after.values())) == 2
        kept = list(before)[:-1]
        assert {turn: after[turn] for turn in kept} == {turn: before[turn] for turn in kept}
    check_charges(town, "killed")
    assert job("killed").costs()["analyst"].epsilon == pytest.approx(0.8)
    found = town.ask("killed").values
    np.testing.assert_array_equal(town.ask("killed").values, found)
    assert np.all((found >= 0) & (found <= 80))
