"""Every party of every protocol, killed with -9 before and after every commit point of its store.

The points are those that a whole run has passed, enumerated and not sampled. Whatever is killed,
the run ends with the same model, and every account has paid for it once.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.evaluation.client import Evaluator
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.evaluation.part import read_half
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.store.accounts import balances_in
from hedgerow.secure.replicated.outside import join_halves
from tests.parties.roles.upload_servers import DOMAIN, people, write_csv
from tests.parties.runs.run_servers import job as server_job
from tests.parties.runs.topdown_jobs import NO_NOISE, make_job, topdown_town
from tests.parties.towns import Town

KILLING = Path(__file__).parent / "killing"
SERVERS = ("alder", "birch", "cedar")
ONCE_FOR_ALL = {"upload", "import models", "import uploads", "name a table"}
"""Points that are passed before any run."""


@dataclass
class Case:
    """A town with everything that its jobs need, and one party of each role to be killed."""

    town: Town
    job: Callable[[str], Job]
    by: str
    victims: tuple[str, ...]
    result: Callable[[str, str], Any]
    """What a party has made, by its name and that of the model."""
    before: int = 0
    """Jobs before, on another population."""


def hidden(root: Path) -> Case:
    town = Town(
        root,
        servers=SERVERS,
        owners=("north",),
        analysts=("zoe",),
        populations={"patients": float("inf")},
        allowed_protocols=("open-tree",),
        allow_exact=True,
    )
    start(town, *SERVERS)
    path = write_csv(root / "people.csv", people(60))
    share_upload(town.parties["north"], path, DOMAIN, id="north-1", population="patients")
    # Without noise: of two splits that are equally good noise would choose either.
    plan = {"noise": "none", "max_depth": 2}

    def result(name: str, model: str) -> Any:
        stored = town.model(name, model, operator_key(town.parties[name].folder))
        return stored.tree, stored.ledger

    def job(name: str) -> Job:
        return server_job(name, protocol="open-tree", plan=plan, analysts=[])

    return Case(town, job, "north", ("alder", "birch"), result)


def evaluation(root: Path) -> Case:
    town = Town(
        root,
        servers=SERVERS,
        owners=("north",),
        analysts=("zoe",),
        populations={"patients": float("inf"), "guests": float("inf")},
        allowed_protocols=("hidden-tree", "evaluation"),
        allowed_posters=("north", "zoe"),
        allow_exact=True,
    )
    start(town, *SERVERS)
    for id, population, n in (("north-1", "patients", 60), ("north-2", "guests", 40)):
        path = write_csv(root / "people.csv", people(n))
        share_upload(town.parties["north"], path, DOMAIN, id=id, population=population)
    trained = server_job("ward", plan={"noise": "none", "max_depth": 2})
    town.until_state(town.post(trained, "north"), "done", *SERVERS)
    # Without noise, for the same reason; the halves have fresh masks all the same.
    first = Evaluator(town.parties["zoe"]).propose("ward-model", ["north-2"], None)
    runs: list[str] = []

    def job(name: str) -> Job:
        made = EvaluationJob.read(first.to_dict() | {"name": name}, "it")
        runs.append(made.run_id)
        return made

    def result(name: str, model: str) -> Any:
        del name, model
        states = {server: town.parties[server] for server in SERVERS[:2]}
        kept = [
            read_half(config.state, runs[-1], number, operator_key(config.folder))
            for number, config in enumerate(states.values())
        ]
        assert len({one.draw for one in kept}) == 1
        halves = [one.half for one in kept if one.half is not None]
        return join_halves(*halves).tolist(), kept[0].ledger

    return Case(town, job, "zoe", ("alder", "birch"), result, before=1)


def topdown(root: Path, method: str) -> Case:
    secret = method == "secure-counts"
    town = topdown_town(root, secret=secret, populations={"patients": 1e9})
    start(town)
    # On shares the choice itself has noise: below the root two splits are nearly as good.
    splits, depth = (1, 1) if secret else (3, 2)
    plan = {"method": method, "epsilon": NO_NOISE, "n_splits": splits, "max_depth": depth}

    def result(name: str, model: str) -> Any:
        stored = town.model(name, model)
        return stored.tree, stored.ledger

    def job(name: str) -> Job:
        return make_job(name=name, model=f"{name}-model", plan=plan)

    victims = ("north", "delta", *(("alder", "birch") if secret else ()))
    return Case(town, job, "north", victims, result)


CASES: dict[str, Callable[[Path], Case]] = {
    "hidden": hidden,
    "evaluation": evaluation,
    "topdown, noisy counts": lambda root: topdown(root, "noisy-counts"),
    "topdown, secret counts": lambda root: topdown(root, "secure-counts"),
}


def start(town: Town, *names: str) -> None:
    paths = [str(KILLING), *filter(None, [os.environ.get("PYTHONPATH")])]
    town.start(*names, PYTHONPATH=os.pathsep.join(paths))


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    made = CASES[request.param](tmp_path)
    try:
        yield made
    finally:
        made.town.stop()


def complete(case: Case, name: str) -> str:
    """Train to the end, whoever has to be started again; return the name of the model."""
    town, job = case.town, case.job(name)
    town.post_again(job, case.by, lambda *names: start(town, *names))

    def done() -> bool:
        town.restart_dead(lambda *names: start(town, *names))
        states = town.states(job.run_id, *town.processes)
        assert "failed" not in states.values(), town.errors(job.run_id)
        return set(states.values()) == {"done"}

    town.until(done, f"{name} to be done")
    return job.model_name


def points_of(case: Case, victim: str) -> list[str]:
    text = (case.town.parties[victim].folder / "points").read_text()
    return [point for point in dict.fromkeys(text.splitlines()) if point not in ONCE_FOR_ALL]


@pytest.mark.slow
def test_whoever_is_killed_wherever(case: Case, record_property: Any) -> None:
    for victim in case.victims:
        (case.town.parties[victim].folder / "points").write_text("")
    model = complete(case, "undisturbed")
    expected = {name: case.result(name, model) for name in case.town.processes}
    trees = {json.dumps(tree) for tree, _ in expected.values()}
    assert len(trees) == 1
    points = {victim: points_of(case, victim) for victim in case.victims}
    killed, jobs = [], 1
    for victim, passed in points.items():
        for point in passed:
            for when in ("before", "after"):
                folder = case.town.parties[victim].folder
                (folder / "kill").write_text(f"{point}, {when}")
                model = complete(case, f"job-{jobs}")
                jobs += 1
                if (folder / "kill").exists():
                    # A point that not every run passes, such as a key that is told once.
                    (folder / "kill").unlink()
                else:
                    killed.append((victim, point, when))
                for name in case.town.processes:
                    assert case.result(name, model) == expected[name], (victim, point, when)
                check_accounts(case, jobs)
    record_property("killed", killed)
    print(f"killed {len(killed)} times: {killed}")
    assert len(killed) >= 2 * len(case.victims)


def check_accounts(case: Case, jobs: int) -> None:
    """Every account has paid for every job once."""
    for name in case.town.processes:
        for balance in balances_in(case.town.parties[name].folder):
            keys = [charge.key for charge in balance.spent.charges]
            assert len(keys) == len(set(keys)) in (0, case.before, jobs), name
