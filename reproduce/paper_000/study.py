"""The runs behind paper 000's figures 2, 3, 4 and 6: which settings, how often, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from reproduce.jobs import run_jobs
from reproduce.jobs import seed_of as seed_of_key
from reproduce.paper_000.data import DATA, DEPTH
from reproduce.paper_000.protocol import Part, Score, Structure, hidden, opened

Record = dict[str, Any]

_SMALL, _LARGE = (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0), (0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
MANY = 100
"""Answers of voting trees within one epsilon, for the second of their curves."""

VOTERS = (3, 10, 30, 100, 300, 1_000, 3_000)
_MARGIN, _TREE_ROWS = 18.0, 8


@dataclass(frozen=True)
class Extent:
    """How much is run.

    `splits`: 80-20 splits, with the seeds from 0 on. `epsilons`: of figures 2 and 4, for each data
    set. `draws`: runs with fresh noise for each split. `depths`: of figures 3, 5 and 6.
    `depth_epsilon`: of figure 3. `trees`: of figure 6. `forest_epsilons`: of figure 6.
    `deepest_noisy_forest`: up to which depth forests with noisy splits are grown: those are grown
    anew for every epsilon. `timed`: tuple of (str, tuple of int); data sets and depths that figure
    5 runs in processes over TLS.
    """

    splits: int
    epsilons: dict[str, tuple[float, ...]]
    draws: dict[str, int]
    depths: tuple[int, ...]
    depth_epsilon: dict[str, float]
    trees: tuple[int, ...]
    forest_epsilons: dict[str, tuple[float, ...]]
    deepest_noisy_forest: dict[str, int]
    timed: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Data sets."""
        return tuple(self.epsilons)


FULL = Extent(
    splits=5,
    epsilons={"titanic": _SMALL, "heart": _SMALL, "adult": _LARGE},
    draws={"titanic": 5, "heart": 5, "adult": 1},
    depths=(2, 3, 4, 5),
    depth_epsilon={"titanic": 0.2, "heart": 0.2, "adult": 0.1},
    trees=(1, 2, 3, 5, 10),
    forest_epsilons={
        "titanic": (0.2, 0.5, 1.0, 2.0),
        "heart": (0.2, 0.5, 1.0, 2.0),
        "adult": (0.005, 0.02, 0.1, 1.0),
    },
    deepest_noisy_forest={"titanic": 5, "heart": 4, "adult": 3},
    timed=(("titanic", (2, 3, 4, 5)), ("heart", (2, 3, 4, 5)), ("adult", (2, 3, 4, 5))),
)

QUICK = Extent(
    splits=2,
    epsilons={"heart": (0.2, 2.0)},
    draws={"heart": 1},
    depths=(2, 3),
    depth_epsilon={"heart": 0.2},
    trees=(1, 5),
    forest_epsilons={"heart": (0.2, 2.0)},
    deepest_noisy_forest={"heart": 2},
    timed=(),
)


@cache
def part_of(name: str, split: int) -> Part:
    """Return one split of a data set."""
    return Part.of(DATA[name](), split)


def paper_plan(part: Part, epsilon: float, depth: int, **more: Any) -> HiddenPlan:
    """Plan a w-ary tree by the max operator, as the paper grows it."""
    fixed = {"branching": "wary", "criterion": "max", "capacity": part.capacity} | more
    return plan_hidden(part.train.domain, epsilon=epsilon, depth=depth, **fixed)


def auto_plan(part: Part, epsilon: float, branching: Any) -> HiddenPlan:
    """Plan a tree with noisy splits whose depth and score follow from public rules."""
    return plan_hidden(
        part.train.domain, epsilon=epsilon, branching=branching, capacity=part.capacity
    )


def vote_plan(part: Part, query_epsilon: float, n_trees: int) -> HiddenPlan:
    """Plan voting trees that answer about every test row at so much each."""
    queries = part.test.n_slots
    return plan_hidden(
        part.train.domain,
        noise="votes",
        epsilon=query_epsilon * queries,
        queries=queries,
        n_trees=n_trees,
        capacity=part.capacity,
    )


def voters(capacity: int, query_epsilon: float) -> int:
    """Choose how many trees vote, by a public rule that follows from the scale of the noise.

    As many as make a lead of a third of the votes three times the scale 2 / epsilon of the noise,
    and no more than leave each tree a few records.
    """
    wanted = min(_MARGIN / query_epsilon, capacity / _TREE_ROWS)
    return max((t for t in VOTERS if t <= wanted), default=VOTERS[0])


def mechanism_of(method: str) -> dict[str, Any]:
    """Return how a method draws its noise, in the words of `plan_hidden`."""
    return {
        "none": {"noise": "none"},
        "leaves laplace": {"noise": "leaves", "mechanism": "laplace"},
        "leaves exponential": {"noise": "leaves", "mechanism": "exponential"},
        "leaves labels": {"noise": "leaves", "leaf_release": "labels"},
        "splits+leaves": {"noise": "splits+leaves"},
        "open laplace": {"noise": "splits+leaves", "mechanism": "laplace"},
        "open exponential": {"noise": "splits+leaves", "mechanism": "exponential"},
        "forest leaves": {"noise": "leaves", "mechanism": "laplace"},
        "forest extra": {"noise": "leaves", "random_splits": True},
        "forest splits+leaves": {"noise": "splits+leaves"},
    }[method]


def seed_of(*key: Any) -> int:
    """Return the seed of a run's noise; what follows from it is the same on every machine."""
    return seed_of_key(*key) * 1_000


def quiet_structure(name: str, split: int, depth: int, extent: Extent) -> Iterator[Record]:
    """Trees whose splits have no noise, w-ary, of one depth (figures 2, 3 and 4)."""
    part = part_of(name, split)
    settings = [("none", 0.0, 0)]
    epsilons: Sequence[float] = [extent.depth_epsilon[name]]
    methods = ["leaves laplace"]
    if depth == DEPTH[name]:
        epsilons = sorted({*extent.epsilons[name], *epsilons})
        methods += ["leaves exponential", "leaves labels"]
    for method in methods:
        settings += [(method, e, draw) for e in epsilons for draw in range(extent.draws[name])]
    plans = [paper_plan(part, e or 1.0, depth, **mechanism_of(m)) for m, e, _ in settings]
    structure = Structure.of(plans[0], part, seed_of(name, split, depth))
    seeds = [seed_of(name, split, depth, *setting) for setting in settings]
    found = structure.leaves(list(zip(plans, seeds, strict=True)))
    for (method, e, draw), score in zip(settings, found, strict=True):
        yield record(method, name, split, score, epsilon=e, depth=depth, draw=draw)


def noisy_structure(
    name: str, split: int, epsilon: float, depth: int, extent: Extent
) -> Iterator[Record]:
    """Trees whose splits have noise, of one epsilon (figures 2, 3 and 4)."""
    part, at_depth = part_of(name, split), depth == DEPTH[name]
    for draw in range(extent.draws[name]):
        for method in ("splits+leaves", "open laplace", "open exponential"):
            if method == "open exponential" and not at_depth:
                continue
            plan = paper_plan(part, epsilon, depth, **mechanism_of(method))
            train = hidden if method == "splits+leaves" else opened
            score = train(plan, part, seed_of(name, split, depth, method, epsilon, draw))
            yield record(method, name, split, score, epsilon=epsilon, depth=depth, draw=draw)
        if at_depth:
            for branching in ("wary", "binary"):
                method = f"splits+leaves {branching} auto"
                plan = auto_plan(part, epsilon, branching)
                score = hidden(plan, part, seed_of(name, split, method, epsilon, draw))
                yield record(
                    method, name, split, score, epsilon=epsilon, depth=plan.depth, draw=draw
                )


def voting(name: str, split: int, extent: Extent) -> Iterator[Record]:
    """Trees without noise that vote with noise (figure 2)."""
    part = part_of(name, split)
    epsilons = sorted({e / q for e in extent.epsilons[name] for q in (1, MANY)})
    for n_trees in VOTERS:
        if part.capacity / _TREE_ROWS < n_trees:
            continue
        first = vote_plan(part, 1.0, n_trees)
        structure = Structure.of(first, part, seed_of(name, split, "votes", n_trees))
        for e in epsilons:
            plan = vote_plan(part, e, n_trees)
            for draw in range(extent.draws[name]):
                score = structure.voted(plan, seed_of(name, split, "votes", n_trees, e, draw))
                yield record(
                    "votes",
                    name,
                    split,
                    score._replace(proven=plan.query_epsilon),
                    epsilon=e,
                    depth=plan.depth,
                    draw=draw,
                    trees=n_trees,
                )


def forests(name: str, split: int, depth: int, n_trees: int, extent: Extent) -> Iterator[Record]:
    """Forests on disjoint records, one vote per tree (figure 6)."""
    part = part_of(name, split)
    draws = [(e, d) for e in extent.forest_epsilons[name] for d in range(extent.draws[name])]
    for method in ("forest leaves", "forest extra", "forest splits+leaves"):
        more = mechanism_of(method) | {"n_trees": n_trees, "public_seed": split}
        plans = [paper_plan(part, e, depth, **more) for e, _ in draws]
        seeds = [seed_of(name, split, depth, n_trees, method, e, d) for e, d in draws]
        if method != "forest splits+leaves":
            structure = Structure.of(plans[0], part, seed_of(name, split, depth, n_trees, method))
            found = structure.leaves(list(zip(plans, seeds, strict=True)))
        elif depth <= extent.deepest_noisy_forest[name]:
            found = [hidden(plan, part, seed) for plan, seed in zip(plans, seeds, strict=True)]
        else:
            continue
        for (e, draw), score in zip(draws, found, strict=True):
            yield record(
                method, name, split, score, epsilon=e, depth=depth, draw=draw, trees=n_trees
            )


def record(method: str, name: str, split: int, score: Score, **more: Any) -> Record:
    """Return one run as plain data; an infinite epsilon is None."""
    found = score._asdict()
    if found["proven"] == float("inf"):
        found["proven"] = None
    return {"method": method, "data": name, "split": split} | more | found


JOBS: dict[str, Callable[..., Iterator[Record]]] = {
    "quiet": quiet_structure,
    "noisy": noisy_structure,
    "votes": voting,
    "forests": forests,
}


def jobs_of(extent: Extent) -> list[tuple[Any, ...]]:
    """List all jobs, the largest first, so that no core waits long for the last."""
    jobs: list[tuple[Any, ...]] = []
    for name in reversed(extent.names):
        for split in range(extent.splits):
            depths = sorted({*extent.depths, DEPTH[name]}, reverse=True)
            for depth in depths:
                jobs += [("forests", name, split, depth, t) for t in sorted(extent.trees)[::-1]]
                at = extent.depth_epsilon[name]
                epsilons = {*extent.epsilons[name], at} if depth == DEPTH[name] else {at}
                jobs += [("noisy", name, split, e, depth) for e in sorted(epsilons)]
                jobs.append(("quiet", name, split, depth))
            jobs.append(("votes", name, split))
    return jobs


def run_job(job: tuple[Any, ...], extent: Extent) -> list[Record]:
    """Run one job, in whatever process."""
    kind, *arguments = job
    return list(JOBS[kind](*arguments, extent))


def run_all(
    extent: Extent, tell: Callable[[int, int], None] = lambda done, of: None
) -> list[Record]:
    """Run all jobs; see `run_jobs`."""
    return run_jobs(run_job, jobs_of(extent), extent, tell, here=extent == QUICK)
