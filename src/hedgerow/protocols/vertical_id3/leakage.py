"""What each site of a vertical ID3 learns, declared before the run.

Paper: vaidya2005vertical, lemmas 1 to 5 and theorems 1 and 2. Nothing of it is private in the
sense of a finite epsilon: sizes of intersections are exact, and the ledger says so for each site.
`CountNoise` is for those who see the tree and its answers from outside.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import (
    EACH,
    ROOT,
    By,
    NoiseSource,
    Opening,
    Partition,
    Release,
    TwoSidedGeometric,
    part,
    step,
)
from hedgerow.privacy.opening import Declared, Shape
from hedgerow.protocols.growers.units import rounded_down
from hedgerow.protocols.vertical_id3.cardinality import ASKED, sizes_name, subsets_name
from hedgerow.protocols.vertical_id3.job import SiteJob

SUM = "masked sum"
COMPARISON = "encrypted comparison"
REMAIN = "whether attributes remain"
PLACE = "place in the tree"
MUST = "whether a node has to be a leaf"
FOLLOWING = "number of the next node"
TOKEN = "token"  # noqa: S105 (the paper's word for the name of a node)
GAIN = "best gain of another site"
ANNOUNCED = "sizes that another site announces"
COMMON = "which own ids all have"
MARKS = "marks of common records in a set that passes back"
INSTANCES = "instances at a node"
ANSWER = "class distributions of instances"
OF_QUESTIONS = (INSTANCES, ANSWER)
"""Learned when instances are classified: exact, whatever noise is in the tree."""
PUBLISHED = "the tree and its answers are exact, for whoever is shown them"

_LEMMA_1 = "lemma 1: whether attributes remain"
_LEMMA_2 = "lemma 2: sizes of sets and of their intersections"
_LEMMA_5 = "lemma 5: best gains"
THEOREM_1 = "theorem 1: structure of the tree"
THEOREM_2 = "theorem 2: the nodes that an instance comes to"
SETUP = "number of records, attributes and values"
_MEMBERS = "which records all sites have"
_IDS = "ids alone, which the sites that align them know"
FULL_SIZES = "sizes of full intersections"
BEST_SITE = "which site has the best attribute"
_EXACT = {
    *(_LEMMA_1, _LEMMA_2, _LEMMA_5, THEOREM_1, THEOREM_2),
    *(SETUP, _MEMBERS, FULL_SIZES, BEST_SITE),
}

# Queries are asked as often as somebody likes.
_QUERIES = 2**62
NODES = Partition("nodes", By.ATTRIBUTES)


class Announced(NamedTuple):
    """What a site said of itself."""

    values: tuple[int, ...]
    classes: int
    records: int


def exact_releases(openings: Iterable[Opening | Declared]) -> list[Release]:
    """Return a charge for each lemma and audience of exact values: no finite epsilon."""
    due = dict.fromkeys((one.audience, reason) for one in openings for reason in one.derived or ())
    return [exact(audience, reason) for audience, reason in due if reason in _EXACT]


def published_releases(job: SiteJob) -> list[Release]:
    """Return what the tree and its answers cost the public without noise: no finite epsilon."""
    return [exact("public", PUBLISHED)] if job.epsilon is None else []


def parties_of(job: SiteJob, *, servers: int = 0) -> list[str]:
    """Return who takes part in a run, as a ledger of all of it names them."""
    sites = [f"site {site}" for site in range(job.n_sites)]
    return [*sites, *(f"server {server}" for server in range(servers))]


def exact(audience: str, reason: str) -> Release:
    """Return the charge for an exact value."""
    return Release("exact", math.inf, 0.0, 1.0, ROOT / step(reason), audience, reason)


def setup_openings(job: SiteJob, site: int, *, secret: bool) -> list[Opening]:
    """Declare what a site learns before the tree: alignment and announcements.

    `records` is how many it brings. On shares with noise all this depends on nothing but ids and
    their number.
    """
    k, who = job.n_sites, f"site {site}"
    found = [site_opening(site, ANNOUNCED, (), SETUP, k)]
    if job.align:
        found += ring_openings(k, who, starter=who if site == job.starter else None)
    return [free_of_values(job, one) for one in found] if secret else found


def ring_openings(k: int, audience: str, *, starter: str | None) -> list[Opening]:
    """Declare what each of an audience learns when k of them align `records` in a ring.

    `starter` is the one that begins, where the audience has it.
    """

    def learned(name: str, shape: Shape, reason: str, times: int, to: str = audience) -> Opening:
        return Opening(name, to, shape, derived=(reason,), times=times)

    found = [
        learned(ASKED, (), SETUP, 1),
        learned(sizes_name(1), (1,), _LEMMA_2, k),
        learned(COMMON, ("records",), _MEMBERS, 1),
        Opening(
            MARKS,
            audience,
            (),
            independent="as many as this site's own, in an order that others have drawn",
            times=k - 1,
        ),
    ]
    if starter is not None:
        found.append(learned(subsets_name((1,) * k), (2,) * k, _LEMMA_2, 1, starter))
    return found


def free_of_values(job: SiteJob, opening: Opening) -> Opening:
    """With noise on shares, let what depends on ids and their number cost nothing.

    What is not hidden of them, `hedgerow.protocols.vertical_id3.plan.mark_secret` marks.
    """
    if job.epsilon is None:
        return opening
    return replace(opening, derived=None, independent=_IDS)


def growth_openings(job: SiteJob, site: int, announced: Mapping[int, Announced]) -> list[Opening]:
    """Declare what a site learns while the tree grows, and while it is used."""
    k = job.n_sites
    nodes = most_nodes(job, announced)
    n_attributes = sum(len(other.values) for other in announced.values())
    passes = nodes * (n_attributes + 1) * k
    found = structure_openings(job, site, announced)
    found.append(site_opening(site, GAIN, (), _LEMMA_5, nodes * k))
    groups = {g for other in announced for g in possible_groups(job, other, announced[other])}
    found += [site_opening(site, sizes_name(g), (g,), _LEMMA_2, passes) for g in sorted(groups)]
    shapes = {shape for m in range(2, k + 1) for shape in _shapes(job, site, announced, m)}
    found += [
        site_opening(site, subsets_name(shape), tuple(g + 1 for g in shape), _LEMMA_2, passes)
        for shape in sorted(shapes)
    ]
    return found


def structure_openings(
    job: SiteJob, site: int, announced: Mapping[int, Announced]
) -> list[Opening]:
    """Declare what a site learns however sizes are counted and gains compared."""
    k = job.n_sites
    nodes = most_nodes(job, announced)
    n_attributes = sum(len(other.values) for other in announced.values())
    passes = nodes * (n_attributes + 1) * k
    return [
        Opening(
            SUM,
            f"site {site}",
            (),
            independent="a number plus a uniform one, modulo 2^64",
            times=nodes * k,
        ),
        Opening(
            COMPARISON,
            f"site {site}",
            (),
            independent="points under a fresh key of another site",
            times=2 * nodes,
        ),
        site_opening(site, REMAIN, (), _LEMMA_1, nodes),
        # Number, depth, and the sites with constraints.
        site_opening(site, PLACE, (3,), THEOREM_1, nodes * (k + 2)),
        site_opening(site, MUST, (), THEOREM_1, nodes),
        site_opening(site, ASKED, (), THEOREM_1, passes),
        site_opening(site, TOKEN, (2,), THEOREM_1, 2 * nodes),
        site_opening(site, FOLLOWING, (), THEOREM_1, nodes),
        # Of each instance: its id, its place in the asker's list, who asks, and for how many.
        site_opening(site, INSTANCES, (4,), THEOREM_2, _QUERIES),
        site_opening(site, ANSWER, (job.n_classes,), THEOREM_2, _QUERIES),
    ]


def table_shapes(job: SiteJob, site: int, announced: Announced) -> set[tuple[int, ...]]:
    """Return the shapes of the tables that a site counts: classes are rows of its own, or not."""
    c = job.n_classes
    if job.knows_class(site):
        return {(c,)} | {(p * c,) for p in announced.values}
    return {(p, c) for p in announced.values}


def possible_groups(job: SiteJob, site: int, announced: Announced) -> set[int]:
    """Return in how many groups a site may bring its set: by value, by class, by both, or one."""
    c = job.n_classes
    if job.class_at is None:
        return {1, c} | {p * c for p in announced.values}
    if site == job.class_at:
        return {c} | {p * c for p in announced.values}
    return {1, *announced.values}


def most_nodes(job: SiteJob, announced: Mapping[int, Announced]) -> int:
    """Return how many nodes a tree can have: every attribute once on each path."""
    widths = sorted((p for other in announced.values() for p in other.values), reverse=True)
    levels: Iterable[int] = accumulate(widths[: job.max_depth], mul)
    return 1 + sum(levels)


def _shapes(
    job: SiteJob, site: int, announced: Mapping[int, Announced], m: int
) -> set[tuple[int, ...]]:
    """Return the groups of a ring of m sites with this one as the counting site, in any order."""
    c, own = job.n_classes, possible_groups(job, site, announced[site])
    marked: list[tuple[int, ...]]
    if job.knows_class(site):
        marked = [(g,) for g in own]
    else:
        marked = [(g, c) for g in announced[site].values]
    found = set()
    for groups in marked:
        plain = m - len(groups)
        if plain < 0:
            continue
        base = [1] * m
        for i in range(m):
            if len(groups) == 1:
                found.add((*base[:i], groups[0], *base[i + 1 :]))
                continue
            for j in range(m):
                if i != j:
                    shape = base.copy()
                    shape[i], shape[j] = groups[0], groups[1]
                    found.add(tuple(shape))
    return found


def site_opening(site: int, name: str, shape: Shape, reason: str, times: int) -> Opening:
    """Declare an exact value that a site may learn; the charge for its lemma pays for it."""
    return Opening(name, f"site {site}", shape, derived=(reason,), times=times)


@dataclass(frozen=True)
class CountNoise:
    """Two-sided geometric noise on every table of counts that a site obtains, and what it costs.

    It is added before anything computed from a table leaves the site: whether a node is a leaf, its
    distribution, the gains. A record is in one node of each level and in one cell of each table, so
    that a table costs its epsilon once per level. The worst case over the public numbers is charged
    first: on each level the class counts, and one table for every attribute that no split above can
    have used; the class counts of the leaves.

    It holds for the public, who sees the joined tree or its answers, and does not take part. It
    holds for no site: the site that counts sees exact sizes of intersections before it adds the
    noise, each site of the ring sees exact sizes of sets, and aligned sites know whose records
    there are.

    Epsilon is of the whole tree, `n_attributes` of all sites together, `widest` the most values.
    """

    epsilon: float
    max_depth: int
    n_attributes: int
    n_classes: int
    widest: int

    @classmethod
    def of(cls, job: SiteJob, widths: Sequence[int]) -> CountNoise | None:
        """Return the noise of a job over attributes of so many values; None without an epsilon."""
        if job.epsilon is None or job.max_depth is None:
            return None
        widest = max(widths, default=1)
        return cls(job.epsilon, job.max_depth, len(widths), job.n_classes, widest)

    @property
    def levels(self) -> int:
        """Levels of splits that there can be."""
        return min(self.max_depth, self.n_attributes)

    @property
    def tables(self) -> int:
        """Tables that one record can be in, in the worst case."""
        splits = sum(self.n_attributes - level for level in range(self.levels))
        return self.levels + 1 + splits

    @cached_property
    def mechanism(self) -> TwoSidedGeometric:
        """Noise of one table."""
        each = rounded_down(Fraction(self.epsilon) / self.tables)
        if not each > 0:
            raise Code.BAD_EPSILON.error(found=f"epsilon={self.epsilon!r}, too small to be divided")
        return TwoSidedGeometric(each)

    def releases(self) -> list[Release]:
        """Return what a tree costs the public, all of it in advance."""
        found = []
        for level in range(self.levels + 1):
            found.append(self._release(level, "class counts", 1, self.n_classes))
            if level < self.levels:
                tables = self.n_attributes - level
                size = self.n_classes * self.widest
                found.append(self._release(level, "counts by attribute", tables, size))
        return found

    def __call__(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        """Return counts with noise, none below 0."""
        return np.maximum(self.mechanism(counts, source), 0)

    def _release(self, level: int, what: str, times: int, variables: int) -> Release:
        return Release(
            mechanism=self.mechanism.name,
            epsilon=self.mechanism.epsilon,
            delta=self.mechanism.delta(variables),
            sensitivity=self.mechanism.sensitivity,
            scope=ROOT / step(f"{what}, level {level}") / part(NODES, EACH),
            audience="public",
            reason=f"{what} at level {level}",
            times=times,
            variables=variables,
        )
