"""Towns of every protocol with everything that its acts need: trainings, and questions to a model.

A case is disturbed by somebody else; whatever that is, an act ends as an undisturbed one does, and
every account has paid for it once.
"""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.evaluation.client import Evaluator
from hedgerow.parties.evaluation.job import EvaluationJob
from hedgerow.parties.evaluation.part import read_half
from hedgerow.parties.queries.asking import Analyst
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.job_files import Job
from hedgerow.parties.store.accounts import balances_in
from hedgerow.parties.store.database import open_store
from hedgerow.secure.replicated.outside import join_halves
from hedgerow.tables import Domain, Target
from tests.parties.roles.upload_servers import DOMAIN, people, write_csv
from tests.parties.runs.run_servers import job as server_job
from tests.parties.topdown.topdown_jobs import NO_NOISE, topdown_town
from tests.parties.topdown.topdown_jobs import make_job as topdown_job
from tests.parties.towns import PATIENCE, Town
from tests.parties.vertical.peer_towns import PeerTown
from tests.parties.vertical.peer_towns import make_job as pivot_job
from tests.parties.vertical.site_towns import VerticalTown
from tests.parties.vertical.site_towns import make_job as vertical_job

SERVERS = ("alder", "birch", "cedar")
BESIDE_SERVERS: dict[str, Any] = {
    "servers": SERVERS,
    "owners": ("north",),
    "analysts": ("zoe",),
    "populations": {"patients": float("inf")},
    "allow_exact": True,
    "largest_delta_per_job": 1e-6,
    "queries_per_model": 1_000_000,
    "queries_per_analyst": 1_000_000,
}
ROWS = 6
Start = Callable[..., None]


class Case(ABC):
    """A town, and one party of each role to be disturbed; `orders` disturb an act, too."""

    orders: tuple[str, ...] = ()

    def __init__(self, town: Town, victims: Sequence[str], start: Start) -> None:
        self.town, self.victims = town, tuple(victims)
        self._start = lambda *names: start(town, *names)

    def again(self) -> None:
        """Start whoever was killed."""
        self.town.restart_dead(self._start)

    @abstractmethod
    def act(self, name: str) -> None:
        """Do one act to its end, whoever has to be started again."""

    def order(self, name: str, order: str) -> None:
        """Have those who take part in an act stop it, or resume it."""
        raise NotImplementedError

    @abstractmethod
    def result(self, name: str) -> Any:
        """Return what has come of an act, at all parties: the same for every act."""

    @abstractmethod
    def check(self, acts: Sequence[str]) -> None:
        """Check that every account has paid for every act once."""


class Training(Case):
    """Every act is a job of another name; `made` is what has come of one."""

    orders = ("stop",)

    def __init__(
        self,
        town: Town,
        victims: Sequence[str],
        start: Start,
        *,
        by: str,
        job: Callable[[str], Job],
        made: Callable[[Job], Any],
        paid_before: Sequence[str] = (),
    ) -> None:
        super().__init__(town, victims, start)
        self.by, self.job, self.made = by, job, made
        self.paid_before = Counter(paid_before)
        self.seats = [seat.name for seat in job("any").seats(town.parties[by])]

    def act(self, name: str) -> None:
        town, job = self.town, self.job(name)
        town.post_again(job, self.by, self._start)

        def done() -> bool:
            self.again()
            rows = [self._run_at(seat, job.run_id) for seat in self.seats]
            if any(row is not None and row["state"] == "failed" for row in rows):
                raise AssertionError(town.errors(job.run_id))
            return all(row is not None and row["closed"] for row in rows)

        town.until(done, f"{name} to be done")

    def order(self, name: str, order: str) -> None:
        """Stop or resume the run, until all who know of it have heard, and it is not too late."""
        client, run = self.town.client(self.by), self.job(name).run_id

        def heard() -> bool:
            told = (client.stop if order == "stop" else client.resume)(run)
            refused = {e.code for e in told.values() if isinstance(e, HedgerowError)}
            return not refused - {Code.WRONG_RUN_STATE, Code.UNKNOWN_RUN}

        self.town.until(heard, f"{name} to {order}")

    def _run_at(self, seat: str, run: str) -> Any:
        with open_store(self.town.parties[seat].state).snapshot() as made:
            return made.row("runs", id=run)

    def result(self, name: str) -> Any:
        return self.made(self.job(name))

    def check(self, acts: Sequence[str]) -> None:
        expected = Counter(self.job(name).account_key for name in acts)
        for name in self.seats:
            for balance in balances_in(self.town.parties[name].folder):
                paid = Counter(charge.key for charge in balance.spent.charges)
                assert paid in (Counter(), self.paid_before, expected), name
            # Nothing that was kept on the way is there any more.
            state, run = self.town.parties[name].state, self.job(acts[-1]).run_id
            with open_store(state).snapshot() as made:
                assert made.row("memories", run=run) is None, name
            assert not list(state.path("runs", run, "stages").glob("*")), name


def on_servers(
    root: Path,
    start: Start,
    protocol: str,
    *,
    domain: Domain = DOMAIN,
    plan: dict[str, Any] | None = None,
    **options: Any,
) -> Training:
    """A protocol of the three servers, without noise: it would choose between equal splits."""
    town = Town(root, **BESIDE_SERVERS | {"allowed_protocols": (protocol,)} | options)
    start(town, *SERVERS)
    rows = people(60)
    if not domain.target.classes:
        ill = pa.array([float(value == "yes") for value in rows["ill"].to_pylist()])
        rows = rows.set_column(rows.column_names.index("ill"), "ill", ill)
    path = write_csv(root / "people.csv", rows)
    share_upload(town.parties["north"], path, domain, id="north-1", population="patients")
    published = protocol == "open-tree"

    def job(name: str) -> Job:
        fields = {"plan": {"max_depth": 2, **(plan or {})}, "domain": domain.to_dict()}
        analysts = [] if published else ["zoe"]
        return server_job(name, protocol=protocol, analysts=analysts, **fields)

    def made(job: Job) -> Any:
        config = town.parties
        stored = {
            name: town.model(name, job.model_name, operator_key(config[name].folder))
            for name in SERVERS
        }
        shown: Any = [each.tree for each in stored.values()]
        if not published:
            asked = rows.slice(0, ROWS).drop_columns(["id", "ill"])
            shown = Analyst(config["zoe"], timeout=PATIENCE).ask(job.model_name, asked).labels
            # The last bit of a quotient is rounded by chance.
            shown = [round(one, 6) if isinstance(one, float) else one for one in shown]
        return shown, [each.ledger for each in stored.values()]

    return Training(town, ("alder", "birch"), start, by="north", job=job, made=made)


def topdown(root: Path, start: Start, method: str, **options: Any) -> Training:
    secret = method == "secure-counts"
    town = topdown_town(root, secret=secret, **{"populations": {"patients": 1e9}} | options)
    start(town)
    # On shares the choice itself has noise: below the root two splits are nearly as good.
    splits, depth = (1, 1) if secret else (3, 2)
    plan = {"method": method, "epsilon": NO_NOISE, "n_splits": splits, "max_depth": depth}

    def made(job: Job) -> Any:
        stored = [town.model(name, job.model_name) for name in sorted(town.processes)]
        return [(each.tree, each.ledger) for each in stored]

    return Training(
        town,
        ("north", "delta", *(("alder", "birch") if secret else ())),
        start,
        by="north",
        job=lambda name: topdown_job(name=name, model=f"{name}-model", plan=plan),
        made=made,
    )


def vertical(root: Path, start: Start, **options: Any) -> Training:
    secret = bool(options.get("secret"))
    town = VerticalTown(root, **options)
    start(town)
    more = {"cardinality": "secret"} if secret else {}

    def made(job: Any) -> Any:
        town.check_tree(job)
        return [town.model(name, job.model_name).ledger for name in sorted(town.processes)]

    return Training(
        town,
        ("club", "observatory", *(("alder", "birch") if secret else ())),
        start,
        by="office",
        job=lambda name: vertical_job(name=name, **more),
        made=made,
    )


def pivot(
    root: Path,
    start: Start,
    hide: str,
    align: str = "ring",
    kind: str = "tree",
    plan: Mapping[str, Any] = MappingProxyType({"max_depth": 1}),
    **options: Any,
) -> Training:
    town = PeerTown(root, **options)
    start(town)
    given, protocol = {**plan, "hide": hide}, f"pivot-{kind}"

    def made(job: Any) -> Any:
        town.check_tree(job)
        return [town.stored(name, job).ledger for name in sorted(town.processes)]

    return Training(
        town,
        ("heron", "rook"),
        start,
        by="wren",
        job=lambda name: pivot_job(name=name, protocol=protocol, plan=given, align=align),
        made=made,
    )


def evaluation(root: Path, start: Start, **options: Any) -> Training:
    """A model is trained before, on other people than those that every act is paid for by."""
    more = {
        "populations": {"patients": float("inf"), "guests": float("inf")},
        "allowed_protocols": ("hidden-tree", "evaluation"),
        "allowed_posters": ("north", "zoe"),
    }
    before = on_servers(root, start, "hidden-tree", **more | options)
    town = before.town
    path = write_csv(root / "guests.csv", people(40))
    share_upload(town.parties["north"], path, DOMAIN, id="north-2", population="guests")
    before.act("evaluated")
    model = before.job("evaluated").model_name
    first = Evaluator(town.parties["zoe"]).propose(model, ["north-2"], None)

    def made(job: Job) -> Any:
        kept = [
            read_half(config.state, job.run_id, number, operator_key(config.folder))
            for number, config in enumerate(town.parties[name] for name in SERVERS)
        ]
        assert len({one.draw for one in kept}) == 1
        halves = [one.half for one in kept if one.half is not None]
        return join_halves(*halves).tolist(), [one.ledger for one in kept]

    return Training(
        town,
        ("alder", "birch"),
        start,
        by="zoe",
        job=lambda name: EvaluationJob.read(first.to_dict() | {"name": name}, "it"),
        made=made,
        paid_before=[before.job("evaluated").account_key],
    )


class Asking(Case):
    """Every act is a question to one model whose answers have noise; it is charged and drawn once.

    `result` asks about nothing more: it is what the stores of the servers say.
    """

    def __init__(self, root: Path, start: Start, **options: Any) -> None:
        plan = {"noise": "votes", "n_trees": 3, "epsilon": 1e6, "queries": 100_000}
        limits = {"largest_epsilon_per_job": 1e7}
        before = on_servers(root, start, "hidden-tree", plan=plan, **limits | options)
        super().__init__(before.town, ("alder", "birch", "cedar"), start)
        before.act("asked")
        self.model = before.job("asked").model_name
        self.rows = people(60).slice(0, ROWS).drop_columns(["id", "ill"])
        self.analyst = Analyst(self.town.parties["zoe"], timeout=PATIENCE)
        self.known = self.analyst.find(self.model)
        self._labels: dict[str, list[Any]] = {}

    def act(self, name: str) -> None:
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                self._labels[name] = self.analyst.ask(self.known, self.rows).labels
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            self.again()
            thread.join(0.02)
        self.again()
        if failed:
            raise failed[0]

    def result(self, name: str) -> Any:
        return self._labels[name]

    def check(self, acts: Sequence[str]) -> None:
        every = []
        for name in SERVERS:
            with open_store(self.town.parties[name].state).snapshot() as made:
                rows = made.rows("questions", model=self.model)
            every.append({row["id"]: (row["n"], row["draw"]) for row in rows})
            assert len(every[-1]) == len(rows) == len(acts), name
            # The third server gives no half, and may hear of the end with the next question.
            assert all(row["done"] for row in rows) or name == SERVERS[2], name
        assert every[0] == every[1] == every[2]
        assert all(n == ROWS and draw for n, draw in every[0].values())


NUMBERS = DOMAIN.model_copy(update={"target": Target(name="ill", bounds=(0.0, 1.0))})
CASES: dict[str, Callable[..., Case]] = {
    "open-tree": lambda root, start, **o: on_servers(root, start, "open-tree", **o),
    "hidden-tree": lambda root, start, **o: on_servers(root, start, "hidden-tree", **o),
    "hidden-regression": lambda root, start, **o: on_servers(
        root, start, "hidden-regression", domain=NUMBERS, **o
    ),
    "hidden-boosting": lambda root, start, **o: on_servers(
        root, start, "hidden-boosting", plan={"n_rounds": 2, "max_depth": 1}, **o
    ),
    "topdown, noisy counts": lambda root, start, **o: topdown(root, start, "noisy-counts", **o),
    "topdown, secret counts": lambda root, start, **o: topdown(root, start, "secure-counts", **o),
    "vertical-id3, ring": vertical,
    "vertical-id3, secret counts": lambda root, start, **o: vertical(root, start, secret=True, **o),
    "pivot-tree, basic": lambda root, start, **o: pivot(root, start, "nothing", **o),
    "pivot-tree, enhanced": lambda root, start, **o: pivot(root, start, "thresholds", **o),
    "pivot-tree, hidden join": lambda root, start, **o: pivot(
        root, start, "nothing", "hidden", **o
    ),
    "pivot-forest": lambda root, start, **o: pivot(
        root, start, "thresholds", kind="forest", plan={"max_depth": 1, "n_estimators": 2}, **o
    ),
    "pivot-boosting": lambda root, start, **o: pivot(
        root, start, "nothing", kind="boosting", plan={"max_depth": 1, "n_estimators": 2}, **o
    ),
    "pivot-logistic": lambda root, start, **o: pivot(
        root, start, "nothing", kind="logistic", plan={"max_iter": 2, "learning_rate": 1.0}, **o
    ),
    "evaluation": evaluation,
    "questions": Asking,
}
"""By protocol: a folder, how parties are started there, and options of the town."""


@contextmanager
def town_case(name: str, root: Path, **environment: str) -> Iterator[Case]:
    """A case in a folder; its parties are ended with it.

    What they wait for ends after a minute or two: no act that is disturbed may take as long.
    """
    towns: list[Town] = []

    def start(town: Town, *names: str) -> None:
        towns[:] = [town]
        town.start(*names, **environment)

    try:
        yield CASES[name](root, start, linked=True, step=60.0, rejoin=120.0)
    finally:
        for town in towns:
            town.stop()
