"""The same training in an estimator, in processes over TLS, in daemons and in the Flower app."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flower"))

from prepare import make_folders
from topdown_app.messages import read_field
from topdown_app.server_app import grow

import hedgerow
from hedgerow import Consortium
from hedgerow.net.meter import Reading
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.meters import read_meter
from hedgerow.parties.store.models import StoredModel
from hedgerow.parties.store.own_tables import OwnTable, keep_own_table
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.part import encoded_table
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.peer_part import read_state
from hedgerow.privacy import Ledger
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.pivot.run import run_pivot
from hedgerow.protocols.registry import PEER_PROTOCOLS, is_published
from hedgerow.protocols.topdown.programs import ANSWER, ASK
from hedgerow.protocols.topdown.run import run_topdown
from hedgerow.protocols.vertical_id3.run import run_vertical
from hedgerow.tables import Domain, Target
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.trees import Tree, read_model
from tests.everywhere.pages import check_reports
from tests.everywhere.transcripts import WHERE, Line, Transcript, note_all, noted_by, transcript_of
from tests.examples.local_grid import LocalGrid
from tests.parties.topdown import topdown_jobs
from tests.parties.topdown.topdown_jobs import NO_NOISE, OWNERS, SERVERS, people
from tests.parties.vertical import peer_towns, site_towns
from tests.parties.vertical.peer_towns import PEERS
from tests.parties.vertical.site_towns import SITES, SiteFiles, VerticalTown
from tests.protocols.vertical_id3.ppid3_runs import WEATHER

ROOT = Path(__file__).parents[2]
WATCHING = Path(__file__).parent / "watching"
SLOTS = 24
ILL = topdown_jobs.DOMAIN.model_copy(update={"capacity": 2 * SLOTS})
AGE = Domain(
    attributes=ILL.attributes[1:], target=Target(name="age", bounds=(0, 100)), capacity=2 * SLOTS
)
SHARERS = OWNERS[:2]
DOMAINS = {"ill": ILL, "age": AGE}


Charges = tuple[list[Any], list[Any]]
Figures = dict[tuple[str, int], tuple[int, int]]


@dataclass(frozen=True)
class Outcome:
    """What a run leaves, wherever it ran: plain data, to be compared with that of another.

    `charges` are entries and marks of ledgers, by whose they are; `meter` has rounds and payload by
    step and party, as the runtime tells them; `result` is the model, or what it answers, where
    there is no noise in it; `pages` are reports of those who took part.
    """

    transcript: Transcript
    charges: dict[str, Charges]
    meter: Figures
    result: Any = None
    seconds: float = 0.0
    pages: Sequence[Path] = ()


@dataclass(frozen=True)
class Case:
    """A job, and what stands for it in Python; `exact` where what is opened has no noise."""

    job: Any
    estimator: str = ""
    exact: bool = False


def server_case(protocol: str, estimator: str, *, target: str = "ill", **plan: Any) -> Case:
    name = f"{protocol}-{plan.get('noise', 'noisy')}".replace("+", "-")
    job = ServerJob.model_validate(
        {
            "name": name,
            "protocol": protocol,
            "model": name,
            "population": "patients",
            "uploads": [f"{owner}-{target}" for owner in SHARERS],
            "analysts": [] if is_published(protocol) else ["zoe"],
            "plan": plan,
            "domain": DOMAINS[target].to_dict(),
        }
    )
    return Case(job, estimator, plan.get("noise") == "none")


def topdown_case(method: str) -> Case:
    # On shares the choice itself has noise: below the root two splits are nearly as good.
    splits, depth = (1, 1) if method == "secure-counts" else (3, 2)
    plan = {"method": method, "epsilon": NO_NOISE, "n_splits": splits, "max_depth": depth}
    return Case(topdown_jobs.make_job(name=method, plan=plan), exact=True)


def pivot_case(hide: str, align: str = "ring", kind: str = "tree", **more: Any) -> Case:
    plan = {"hide": hide, **({} if kind == "logistic" else {"max_depth": 2}), **more}
    name = f"{kind}-hide-{hide}-{align}"
    job = peer_towns.make_job(name=name, protocol=f"pivot-{kind}", plan=plan, align=align)
    # Weights are rounded at random, by one unit in the last place.
    return Case(job, exact=kind != "logistic")


def vertical_case(cardinality: str) -> Case:
    job = site_towns.make_job(name=f"{cardinality}-counts", cardinality=cardinality)
    return Case(job, exact=True)


CASES = {
    "hidden-tree, exact": server_case(
        "hidden-tree", "HiddenTreeClassifier", noise="none", max_depth=2
    ),
    "hidden-tree, noisy": server_case(
        "hidden-tree", "HiddenTreeClassifier", noise="splits+leaves", epsilon=1.0, max_depth=2
    ),
    "open-tree, exact": server_case("open-tree", "OpenTreeClassifier", noise="none", max_depth=2),
    "open-tree, noisy": server_case("open-tree", "OpenTreeClassifier", epsilon=1.0, max_depth=2),
    "votes": server_case(
        "hidden-tree",
        "HiddenForestClassifier",
        noise="votes",
        epsilon=8.0,
        n_trees=3,
        queries=2,
        max_depth=1,
        leaf_release="labels",
    ),
    "hidden-regression": server_case(
        "hidden-regression", "HiddenTreeRegressor", target="age", noise="none", max_depth=1
    ),
    "hidden-boosting": server_case(
        "hidden-boosting", "HiddenBoostingClassifier", noise="none", n_rounds=2, max_depth=1
    ),
    "topdown, noisy-counts": topdown_case("noisy-counts"),
    "topdown, local-rnm": topdown_case("local-rnm"),
    "topdown, secure-counts": topdown_case("secure-counts"),
    "vertical-id3, ring": vertical_case("commutative"),
    "vertical-id3, secret counts": vertical_case("secret"),
    "pivot-tree, basic": pivot_case("nothing"),
    "pivot-tree, enhanced": pivot_case("thresholds"),
    "pivot-tree, hidden rows": pivot_case("thresholds", "hidden"),
    "pivot-boosting, hidden": pivot_case("everything", kind="boosting", n_estimators=2),
    "pivot-forest, basic": pivot_case("nothing", kind="forest", n_estimators=2),
    # Hidden rows are in an order of chance, and public coins draw places: all are in each tree.
    "pivot-forest, hidden rows": pivot_case(
        "peers", "hidden", kind="forest", n_estimators=2, bootstrap=False, max_features=1
    ),
    "pivot-logistic, basic": pivot_case("nothing", kind="logistic", max_iter=2),
    "pivot-logistic, hidden": pivot_case("weights", kind="logistic", max_iter=2),
}


class Tables:
    """The files of all parties in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sites = SiteFiles(root)
        for number, name in enumerate(OWNERS):
            pyarrow.csv.write_csv(people(200, number), self.path(name))
            pyarrow.csv.write_csv(people(SLOTS - 4, number), self.path(name, "shared"))

    def path(self, name: str, what: str = "own") -> Path:
        return self.root / f"{name}-{what}.csv"

    def rows(self, what: str, target: str, owners: Sequence[str]) -> tuple[list[Any], list[Any]]:
        """Return tables and targets of owners."""
        tables = [pyarrow.csv.read_csv(self.path(name, what)) for name in owners]
        return [t.drop_columns([target]) for t in tables], [t[target].to_numpy() for t in tables]


def asked(domain: Domain) -> pa.Table:
    """Return rows that nobody has."""
    return people(12, 99).select(domain.names)


@contextmanager
def noting(folder: Path) -> Iterator[dict[str, str]]:
    """Let processes that are started from here note what they do; yields their environment."""
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WHERE, str(folder))
        for path in (ROOT, WATCHING):
            patch.syspath_prepend(path)
        before = filter(None, [os.environ.get("PYTHONPATH")])
        path = os.pathsep.join([str(WATCHING), str(ROOT), *before])
        yield {WHERE: str(folder), "PYTHONPATH": path}


@contextmanager
def noting_here() -> Iterator[list[Line]]:
    """Note what this process does."""
    lines: list[Line] = []
    with pytest.MonkeyPatch.context() as patch:
        note_all(lines.append, patch.setattr)
        yield lines


def figures(reading: Reading) -> Figures:
    """Return rounds and payload, without those who only wait."""
    found = {at: (one.rounds, one.payload) for at, one in reading.traffic.items()}
    return {at: one for at, one in found.items() if any(one)}


def charges_of(ledger: Ledger | str) -> Charges:
    data = json.loads(ledger if isinstance(ledger, str) else ledger.to_json())
    return data["entries"], data["not_private"]


def of_one_owner(job: TopDownJob) -> Charges:
    """Return what the plan of a job says that an owner charges."""
    ledger = Ledger(domain=job.domain)
    ledger.charge(*job.make_plan().releases())
    if job.plan.method == "secure-counts":
        mark_collusion(ledger)
    return charges_of(ledger)


# In an estimator: in this process, or in one for each party.


def in_estimator(case: Case, tables: Tables, engine: str) -> Outcome:
    """Fit an estimator; where it has no processes, run what it runs."""
    fit = {
        ServerJob: _fit_servers,
        TopDownJob: _fit_owners,
        VerticalJob: _fit_sites,
        PivotJob: _fit_peers,
    }
    folder = tables.root / f"noted-{case.job.name}"
    begun = time.perf_counter()
    with noting_here() as lines, noting(folder):
        made, result = fit[type(case.job)](case, tables, engine)
    seconds = time.perf_counter() - begun
    noted = noted_by(folder) if engine == "processes" else [lines]
    return replace(
        made,
        transcript=transcript_of(noted),
        seconds=seconds,
        # Asked for when nothing is noted any more: what questions send is not of the training.
        result=result() if case.exact else None,
    )


_NOTHING = Transcript()
Fitted = tuple[Outcome, Callable[[], Any]]


def _fit_servers(case: Case, tables: Tables, engine: str) -> Fitted:
    job, kind = case.job, getattr(hedgerow, case.estimator)
    names = kind._options_type.parameters()
    given = {names[key]: getattr(job.plan, key) for key in job.plan.model_fields_set}
    model = kind(domain=job.domain, engine=engine, **given)
    X, y = tables.rows("shared", job.domain.target.name, SHARERS)
    model.fit_owners([x.select(job.domain.names) for x in X], y, slots=[SLOTS] * len(SHARERS))
    assert model.plan_.to_dict() == job.make_plan().to_dict()
    made = Outcome(_NOTHING, {"servers": charges_of(model.privacy_)}, figures(model.meter_))
    if is_published(job.protocol):
        return made, model.tree_.to_dict
    return made, lambda: model.predict(asked(job.domain)).tolist()


def _fit_owners(case: Case, tables: Tables, engine: str) -> Fitted:
    job, plan = case.job, case.job.make_plan()
    charges = {}
    if engine == "processes":
        run: Any = run_topdown(
            plan,
            {name: encoded_table(tables.path(name), job.domain, AbsorbedRows()) for name in OWNERS},
            engine,
        )
        tree = run.tree
    else:
        given = {key: getattr(job.plan, key) for key in job.plan.model_fields_set}
        model = hedgerow.TopDownTreeClassifier(domain=job.domain, engine=engine, **given)
        model.fit_owners(*tables.rows("own", "ill", OWNERS), names=OWNERS)
        assert model.plan_.to_dict() == plan.to_dict()
        charges = {"all": charges_of(model.privacy_), "owner": of_one_owner(job)}
        tree, run = model.tree_, model.secure_run_
    if run is None or run.ledger is None:
        return Outcome(_NOTHING, charges, {}), tree.to_dict
    charges["servers"] = charges_of(run.ledger)
    return Outcome(_NOTHING, charges, figures(run.meter)), tree.to_dict


def _fit_sites(case: Case, tables: Tables, engine: str) -> Fitted:
    job, files = case.job, tables.sites
    run = run_vertical(job.make_plan(), files.tables(job), engine)
    charges = {f"site {site.index}": charges_of(site.ledger) for site in run.sites}
    if run.ledger is not None:
        charges["servers"] = charges_of(run.ledger)

    def result() -> Any:
        found = [nodes_of(run.root, site.nodes) for site in run.sites]
        if engine == "simulate":
            # What an estimator runs.
            model = hedgerow.VerticalID3Classifier(domain=WEATHER, cardinality=job.cardinality)
            model.fit_sites(*files.parts())
            assert [nodes_of(model.root_, site.nodes) for site in model.sites_] == found
            assert charges == charges | {
                f"site {site.index}": charges_of(site.ledger) for site in model.sites_
            }
        return found

    return Outcome(_NOTHING, charges, figures(run.meter)), result


def _fit_peers(case: Case, tables: Tables, engine: str) -> Fitted:
    job, plan = case.job, case.job.make_plan()
    ledger = peer_towns.charged(plan)
    run = run_pivot(plan, peer_towns.tables_of(job, tables.sites), ledger, engine)
    return Outcome(_NOTHING, {"peers": charges_of(ledger)}, figures(run.traffic)), lambda: seen_of(
        job, run.model.to_state()
    )


def seen_of(job: PivotJob, state: Mapping[str, Any]) -> Any:
    """Return what all peers see of a model."""
    shares = PEER_PROTOCOLS[job.protocol].shares
    return {key: state[key].tolist() for key in state if key not in shares}


def nodes_of(root: Any, nodes: Mapping[int, Any]) -> Any:
    return str(root), {number: repr(node) for number, node in sorted(nodes.items())}


# Between daemons.


class Everybody(VerticalTown):
    """One consortium with members of all roles, for all jobs."""

    def __init__(self, root: Path) -> None:
        every = float("inf")
        super().__init__(
            root,
            secret=True,
            owners=OWNERS,
            coordinator="delta",
            peers=PEERS,
            analysts=("zoe",),
            populations={"patients": every, "days": every},
            largest_epsilon_per_job=NO_NOISE,
            allowed_protocols=(
                "hidden-tree",
                "open-tree",
                "hidden-regression",
                "hidden-boosting",
                "topdown",
                "vertical-id3",
                *PEER_PROTOCOLS,
            ),
        )
        peer_towns.name_tables(self, self.files)
        self.tables = Tables(root)
        for name in OWNERS:
            keep_own_table(self.parties[name].state, OwnTable("patients", self.tables.path(name)))
        self.noted = root / "noted"

    def upload(self) -> None:
        """Have owners share their tables, under both domains."""
        for name in SHARERS:
            for target, domain in DOMAINS.items():
                share_upload(
                    self.parties[name],
                    self.tables.path(name, "shared"),
                    domain,
                    id=f"{name}-{target}",
                    population="patients",
                    slots=SLOTS,
                )

    def stored(self, name: str, job: Job) -> StoredModel:
        key = operator_key(self.parties[name].folder) if name in (*SERVERS, *PEERS) else None
        return self.model(name, job.model_name, key)

    def members(self, job: Job) -> list[str]:
        return [member.name for member in job.seats(self.parties["alder"])]

    def run(self, case: Case, more: int = 2) -> Outcome:
        """Post a job and wait until all have done it; return what they kept, and noted.

        On a machine that is too slow for it an attempt is begun anew, and is no whole transcript
        any more; then the same job is run again under another name, so many times.
        """
        job, begun = case.job, time.perf_counter()
        members = self.members(job)
        by = {VerticalJob: "office", PivotJob: "wren"}.get(type(job), "north")
        self.post(job, by)
        self.until_state(job.run_id, "done", *members)
        seconds = time.perf_counter() - begun
        noted = noted_by(self.noted, "worker", job.run_id)
        if len(noted) != len(members):
            assert more, "another attempt each time: the machine is too slow"
            names = {"name": f"{job.name}-{more}", "model": f"{job.model_name}-{more}"}
            words = job.to_dict()
            again = type(job).read(words | {k: names[k] for k in names if k in words}, "it")
            return self.run(replace(case, job=again), more - 1)
        kept = {name: self.stored(name, job) for name in members}
        meter: Figures = {}
        for name in members:
            reading = read_meter(open_store(self.parties[name].state), job.run_id)
            assert reading is not None
            meter |= figures(reading)
        charges = self._charges(job, kept)
        result = self._result(case, kept) if case.exact else None
        pages = check_reports(self, job)
        return Outcome(transcript_of(noted), charges, meter, result, seconds, pages)

    def _charges(self, job: Any, kept: Mapping[str, StoredModel]) -> dict[str, Charges]:
        """Return what models and stores say of charges; who has the same to say says the same."""
        models = {name: charges_of(one.ledger) for name, one in kept.items()}
        stores = {
            name: charges_of(DurableLedger(open_store(self.parties[name].state), job.run_id))
            for name in kept
        }
        if isinstance(job, VerticalJob):
            assert stores == models
            charges = {f"site {i}": models[name] for i, name in enumerate(SITES)}
            return charges | ({"servers": _one(models, SERVERS)} if job.secret else {})
        if isinstance(job, ServerJob):
            assert stores == models
            return {"servers": _one(models, SERVERS)}
        if isinstance(job, PivotJob):
            assert stores == models
            return {"peers": _one(models, PEERS)}
        charges = {"all": _one(models, kept), "owner": _one(stores, OWNERS)}
        secret = job.plan.method == "secure-counts"
        return charges | ({"servers": _one(stores, SERVERS)} if secret else {})

    def _result(self, case: Case, kept: Mapping[str, StoredModel]) -> Any:
        job = case.job
        if isinstance(job, VerticalJob):
            return [nodes_of(n.root, n.nodes) for n in (self.nodes(name, job) for name in SITES)]
        if isinstance(job, PivotJob):
            return _one({name: seen_of(job, read_state(one)) for name, one in kept.items()}, PEERS)
        if isinstance(job, TopDownJob) or is_published(job.protocol):
            texts = {name: json.dumps(one.tree) for name, one in kept.items()}
            return Tree.from_json(_one(texts, kept)).to_dict()
        model = Consortium(self.parties["zoe"].folder).model(job.model_name)
        return model.predict(asked(job.domain)).tolist()


def _one(found: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return what all of these have alike."""
    first, *others = (found[name] for name in names)
    assert all(other == first for other in others)
    return first


@contextmanager
def everybody(root: Path) -> Iterator[Everybody]:
    """Let all of them serve."""
    town = Everybody(root)
    try:
        with noting(town.noted) as environment:
            town.start(**environment)
        town.upload()
        yield town
    finally:
        town.stop()


# In the Flower app.


def in_flower(case: Case, tables: Tables) -> Outcome:
    """Run ServerApp and ClientApp on a grid in this process; messages are those on the grid."""
    job, folder = case.job, tables.root / f"flower-{case.job.name}"
    rows = {name: pyarrow.csv.read_csv(tables.path(name)) for name in OWNERS}
    make_folders(folder, job, rows)
    owners = {name: folder / "owners" / name for name in OWNERS}
    grid, begun = LocalGrid(owners), time.perf_counter()
    report = grow(grid, job, folder / "result", wait=60.0, poll=0.01)
    seconds = time.perf_counter() - begun
    sent: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name, message in grid.sent:
        ask = read_field(message.content, ASK, bytes)
        sent.setdefault((0, 1 + OWNERS.index(name)), []).append((ASK, len(ask)))
    for reply in grid.replies:
        answer = read_field(reply.content, ANSWER, bytes)
        number = 1 + OWNERS.index(grid.names[reply.metadata.src_node_id])
        sent.setdefault((number, 0), []).append((ANSWER, len(answer)))
    made = Transcript(sent)
    total = {True: report["bytes"]["sent"], False: report["bytes"]["received"]}
    for asked in (True, False):
        assert total[asked] == sum(
            n for pair in sent for _, n in sent[pair] if (pair[0] == 0) == asked
        )
    ledgers = {
        name: charges_of((own / "state" / "runs" / job.run_id / "ledger.json").read_text())
        for name, own in owners.items()
    }
    model = folder / "result" / job.run_id / "model.json"
    privacy = json.dumps(json.loads(model.read_text())["privacy"])
    charges = {"all": charges_of(privacy), "owner": _one(ledgers, OWNERS)}
    return Outcome(made, charges, {}, read_model(model).model.to_dict(), seconds)
