"""What a vertical ID3 reveals and charges: the public facts of a run, and what follows from them.

They follow from the job and from the sizes that the sites announce (`Session`); with the domain of
all columns that is a `VerticalPlan`. Every party of a run charges `Session.releases`, and nothing
else until somebody asks about instances.

On secret counts two lemmas of vaidya2005vertical say less: the site that counts learns the sizes of
the full intersections and of no others (lemma 2), and the site that runs a node which site has the
best attribute, and no gain (lemma 5). With noise, all that the sites and the servers learn of what
records say **while the tree grows** is computed from noisy counts. Questions are another matter:
which branch a named instance takes at another site is exact, and so is charged without a finite
epsilon from the first question on.

A shared part is bound to the session (the job and all sizes that the sites announced), the call,
the question, the site that asks, the ring, the site that shares and the server: a site that asks
cannot use it for another question.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hedgerow.errors import Code
from hedgerow.privacy import Ledger, Opening, Relation, Release
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import (
    ANNOUNCED,
    BEST_SITE,
    FULL_SIZES,
    OF_QUESTIONS,
    SETUP,
    THEOREM_1,
    Announced,
    CountNoise,
    exact_releases,
    free_of_values,
    growth_openings,
    most_nodes,
    published_releases,
    setup_openings,
    site_opening,
    structure_openings,
    table_shapes,
)
from hedgerow.protocols.vertical_id3.messages import SIZES
from hedgerow.secure.noise.discrete import LARGEST_EPSILON, Precision, precision
from hedgerow.secure.replicated import EVERYONE
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.tables import Domain

NUMBERS = Z64
"""Ring of the numbers that sites share: gains, and hashes of ids."""

SEALED = "sealed parts of another site"
WINNER = "site with the best attribute"
SAME_IDS = "whether all sites have the same ids"
QUESTION = "who asks, about which sites and how many groups"
ALL_SERVERS = EVERYONE

_MEMBERS = (
    "the number of aligned records is known, and to the sites whose they are: nothing hides "
    "whether a record is there (formal_total under replace is about what it says)"
)


@dataclass(frozen=True)
class Session:
    """The public facts of a run after all sites have announced their sizes.

    `secret` where three servers count on shares. What is charged and declared is that `of` a party
    with a ledger of its own, such as "site 0", or of all together.
    """

    job: SiteJob
    announced: Mapping[int, Announced]
    secret: bool

    def releases(self, of: str | None = None) -> list[Release]:
        """Return the charges: for every audience why its values are exact, or what noise costs.

        The servers charge everybody's, since they open values to all.
        """
        return [*self.setup_releases(of), *self.growth_releases(of)]

    def setup_releases(self, of: str | None = None) -> list[Release]:
        """Return the charges that come before any size is announced."""
        return _charged_by(of, exact_releases(self.setup()))

    def growth_releases(self, of: str | None = None) -> list[Release]:
        """Return the charges that come when all sizes are announced."""
        noise = [] if self.noise is None else self.noise.releases()
        due = [one for site in self._sites for one in self.growth_openings(site)]
        if self.secret:
            noise = secret_releases(self)
            due += [one for one in server_openings(self) if one.audience == ALL_SERVERS]
        exactly = exact_releases(one for one in due if one.name not in OF_QUESTIONS)
        before = exact_releases(self.setup())
        found = [*published_releases(self.job), *noise]
        found += [one for one in exactly if one not in before]
        return _charged_by(of, found)

    def openings(self, of: str | None = None) -> list[Opening]:
        """Return what may be learned, at most so often: setting up, growing and answering.

        A site brings so many `records`.
        """
        servers = server_openings(self) if self.secret else []
        if of == ALL_SERVERS:
            return servers
        found = [
            *self.setup(),
            *(one for site in self._sites for one in self.growth_openings(site)),
        ]
        return [*found, *servers] if of is None else [one for one in found if one.audience == of]

    def growth_openings(self, site: int) -> list[Opening]:
        """Return what a site may learn while the tree grows, and while it is used."""
        if self.secret:
            return site_openings(self, site)
        return growth_openings(self.job, site, self.announced)

    @cached_property
    def records(self) -> int:
        """Number of aligned records, that is of slots."""
        return self.announced[0].records

    @cached_property
    def digest(self) -> bytes:
        """What parties that agree on job and sizes have in common."""
        sizes = [[list(said.values), said.classes, said.records] for said in self._in_order]
        text = json.dumps(sizes, separators=(",", ":"))
        return hashlib.sha256(
            b"hedgerow/ppid3 sizes/v1" + self.job.digest() + text.encode()
        ).digest()

    @cached_property
    def noise(self) -> CountNoise | None:
        """Noise of the counts, where the job has an epsilon."""
        return CountNoise.of(self.job, self.widths)

    @cached_property
    def widths(self) -> list[int]:
        """Values of the attributes of all sites."""
        return [p for said in self._in_order for p in said.values]

    @cached_property
    def drawn(self) -> Precision | None:
        """How finely noise is drawn on shares: the same for every table, of the largest size."""
        noise = self.noise
        if noise is None:
            return None
        if noise.mechanism.epsilon > LARGEST_EPSILON:
            raise Code.BAD_EPSILON.error(
                expected=f"at most epsilon {LARGEST_EPSILON * noise.tables:g} on secret counts, "
                f"{LARGEST_EPSILON:g} for each of {noise.tables} tables",
                found=f"epsilon={noise.epsilon:g}",
                fix="choose a smaller epsilon, or train without noise",
            )
        return precision(noise.mechanism, noise.n_classes * noise.widest)

    @cached_property
    def ring(self) -> Ring:
        """In which counts are computed: the smallest ring that holds them, and noise twice."""
        if self.drawn is None:
            return next(ring for ring in (Z16, Z32, Z64) if self.records < 1 << ring.bits)
        most = self.records + (2 << self.drawn.variable.length)
        return next((ring for ring in (Z16, Z32) if most < 1 << (ring.bits - 1)), Z64)

    def shape_of_part(self, what: int, groups: int) -> tuple[tuple[int, ...], Ring | None]:
        """Return shape and ring of what a site shares: one number, or bits (None) of a set."""
        if what == SIZES:
            return (set_planes(groups), self.records), None
        return (1,), NUMBERS

    def context(self, call: int, what: int, counter: int, ring: tuple[int, ...]) -> QuestionContext:
        """Return what the parts of one question are bound to."""
        return QuestionContext(self.digest, call, what, counter, ring)

    @property
    def _in_order(self) -> list[Announced]:
        return [self.announced[site] for site in self._sites]

    @property
    def _sites(self) -> range:
        return range(self.job.n_sites)

    def setup(self) -> list[Opening]:
        """Return what sites may learn before any size is announced."""
        return [
            one
            for site in self._sites
            for one in setup_openings(self.job, site, secret=self.secret)
        ]


@dataclass(frozen=True)
class VerticalPlan(Session):
    """A session over the columns of a domain, as somebody knows it who sees all of them."""

    domain: Domain


@dataclass(frozen=True)
class QuestionContext:
    """One question, as the sites of its ring and the servers see it."""

    session: bytes
    call: int
    what: int
    counter: int
    ring: tuple[int, ...]

    def of(self, owner: int, groups: int, server: int) -> bytes:
        """Return what a site's part for a server is bound to."""
        bound = [
            *("ppid3 part 2", self.session.hex(), self.call, self.what, self.counter),
            *(list(self.ring), owner, groups, server),
        ]
        return json.dumps(bound, separators=(",", ":")).encode()


def set_planes(groups: int) -> int:
    """Return how many bits a site shares of every slot: those of its group, or of 0 for none."""
    return groups.bit_length()


def gain_number(gain: float) -> int:
    """Return a gain as a whole number in the same order; 0 for a site without an attribute left.

    Non-negative doubles stand in the order of their 64 bits read as a number (IEEE 754), so no grid
    could be finer. The bits of any gain below 2^512 are below 2^63 - 2^61, so that differences keep
    their sign.
    """
    return 0 if gain < 0 else 1 + int(np.float64(gain + 0.0).view(np.int64))


def sizes_of(shape: tuple[int, ...]) -> str:
    """Return the name under which sizes of full intersections are declared."""
    return f"sizes of full intersections in {' x '.join(map(str, shape))} groups"


def site_openings(session: Session, site: int) -> list[Opening]:
    """Declare what a site learns while the tree grows, and while it is used."""
    job, announced = session.job, session.announced
    nodes, asked = _worst_case(session)
    found = [
        Opening(
            SEALED,
            f"site {site}",
            (),
            independent="sealed to the servers",
            times=asked * job.n_sites,
        ),
        *structure_openings(job, site, announced),
        site_opening(site, WINNER, (1,), BEST_SITE, nodes),
        _of_ids(job, SAME_IDS, f"site {site}", (1,)),
        *(
            site_opening(site, sizes_of(shape), shape, FULL_SIZES, asked)
            for shape in sorted(table_shapes(job, site, announced[site]))
        ),
    ]
    return _paid(session, found)


def server_openings(session: Session) -> list[Opening]:
    """Declare what the servers see, and what they open to the sites."""
    job, announced = session.job, session.announced
    nodes, asked = _worst_case(session)
    times = asked * job.n_sites
    shapes = {s for site, said in announced.items() for s in table_shapes(job, site, said)}
    found = [
        _opening(QUESTION, ALL_SERVERS, (), THEOREM_1, times + nodes + 1),
        _of_ids(job, ANNOUNCED, ALL_SERVERS, ()),
        _of_ids(job, SAME_IDS, "site", (1,)),
        _opening(WINNER, "site", (1,), BEST_SITE, nodes),
        *(_opening(sizes_of(shape), "site", shape, FULL_SIZES, times) for shape in sorted(shapes)),
    ]
    return _paid(session, found)


def secret_releases(session: Session) -> list[Release]:
    """Return what noisy counts cost everybody: the charges of `CountNoise`, drawn on shares.

    A site that needs nobody else for a table draws its noise itself, so the larger delta counts.
    """
    if session.noise is None or session.drawn is None:
        return []
    finite = session.drawn.delta
    return [
        replace(release, delta=max(release.delta, finite)) for release in session.noise.releases()
    ]


def mark_secret(ledger: Ledger, job: SiteJob) -> None:
    """Record against whom nothing holds: two servers, and whoever knows the members."""
    mark_collusion(ledger)
    mark_members(ledger, job)


def mark_members(ledger: Ledger, job: SiteJob, relation: Relation | None = None) -> None:
    """Record that noise hides no record from whoever knows which, or how many, there are."""
    if job.epsilon is None:
        return
    for audience in (*(f"site {site}" for site in range(job.n_sites)), ALL_SERVERS):
        ledger.mark_not_private(_MEMBERS, [audience], relation)


def _charged_by(of: str | None, releases: list[Release]) -> list[Release]:
    """Return what stands in the ledger of a party: what it learns itself, and what all see."""
    if of in (None, ALL_SERVERS):
        return releases
    return [one for one in releases if one.audience in (of, "public")]


def _worst_case(session: Session) -> tuple[int, int]:
    """Return how many nodes there can be, and how many tables one site can ask for."""
    announced: dict[int, Announced] = dict(session.announced)
    nodes = most_nodes(session.job, announced)
    return nodes, nodes * (1 + sum(len(said.values) for said in announced.values()))


def _paid(session: Session, openings: Sequence[Opening]) -> list[Opening]:
    """With noise, let all of training that depends on records follow from the noisy counts."""
    if session.noise is None:
        return list(openings)
    reasons = tuple(release.reason for release in secret_releases(session))
    return [
        replace(one, derived=reasons) if one.derived and one.name not in OF_QUESTIONS else one
        for one in openings
    ]


def _opening(name: str, audience: str, shape: tuple[int, ...], reason: str, times: int) -> Opening:
    return Opening(name, audience, shape, derived=(reason,), times=times)


def _of_ids(job: SiteJob, name: str, audience: str, shape: tuple[int, ...]) -> Opening:
    return free_of_values(job, _opening(name, audience, shape, SETUP, 1))
