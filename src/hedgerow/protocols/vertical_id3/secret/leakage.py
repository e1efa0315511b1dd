"""What sites and servers of a vertical ID3 on secret counts learn, declared before the run.

Of the lemmas of vaidya2005vertical, two say less here: the site that counts learns the sizes of the
full intersections and of no others (lemma 2), and the site that runs a node which site has the best
attribute, and no gain (lemma 5). With noise, all that the sites and the servers learn of what
records say **while the tree grows** is computed from noisy counts. Questions are another matter:
which branch a named instance takes at another site is exact, and so is charged without a finite
epsilon from the first question on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgerow.privacy import Ledger, Opening, Release
from hedgerow.protocols.hidden.programs import mark_collusion
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import (
    ANNOUNCED,
    OF_QUESTIONS,
    Announced,
    exact,
    most_nodes,
    published_releases,
    setup_openings,
    site_opening,
    structure_openings,
    table_shapes,
)
from hedgerow.protocols.vertical_id3.secret.parts import Session

SEALED = "sealed parts of another site"
WINNER = "site with the best attribute"
SAME_IDS = "whether all sites have the same ids"
QUESTION = "who asks, about which sites and how many groups"
ALL_SERVERS = "server"

_SIZES = "sizes of full intersections"
_BEST = "which site has the best attribute"
_PLACE = "theorem 1: structure of the tree"
_SETUP = "number of records, attributes and values"
_IDS = "ids alone, which the sites that align them know"
_MEMBERS = (
    "the number of aligned records is known, and to the sites whose they are: nothing hides "
    "whether a record is there (formal_total under replace is about what it says)"
)


def sizes_of(shape: tuple[int, ...]) -> str:
    """Return the name under which sizes of full intersections are declared."""
    return f"sizes of full intersections in {' x '.join(map(str, shape))} groups"


def secret_setup_openings(job: SiteJob, site: int, records: int) -> list[Opening]:
    """Declare what a site learns before the tree.

    Where noise protects what records say, ids and their number are all that this depends on.
    """
    return [_free_of_values(job, one) for one in setup_openings(job, site, records)]


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
        site_opening(site, WINNER, (1,), _BEST, nodes),
        _of_ids(job, SAME_IDS, f"site {site}", (1,)),
        *(
            site_opening(site, sizes_of(shape), shape, _SIZES, asked)
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
        _opening(QUESTION, ALL_SERVERS, (), _PLACE, times + nodes + 1),
        _of_ids(job, ANNOUNCED, ALL_SERVERS, ()),
        _of_ids(job, SAME_IDS, "site", (1,)),
        _opening(WINNER, "site", (1,), _BEST, nodes),
        *(_opening(sizes_of(shape), "site", shape, _SIZES, times) for shape in sorted(shapes)),
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


def earlier_releases(session: Session, attempts: int) -> list[Release]:
    """Return what attempts that failed have cost those who took part; the public saw nothing."""
    parties = [f"site {site}" for site in range(session.job.n_sites)]
    return [
        replace(release, audience=audience, reason=f"{release.reason}, in earlier attempt {i}")
        for i in range(1, attempts + 1)
        for audience in (*parties, ALL_SERVERS)
        for release in secret_releases(session)
    ]


def mark_secret(ledger: Ledger, job: SiteJob) -> None:
    """Record against whom nothing holds: two servers, and whoever knows the members."""
    mark_collusion(ledger)
    if job.epsilon is None:
        return
    for audience in (*(f"site {site}" for site in range(job.n_sites)), ALL_SERVERS):
        ledger.mark_not_private(_MEMBERS, [audience])


def summary_of_secret(session: Session) -> list[Release]:
    """Return what a ledger of the whole run says: for each audience why its values are exact."""
    if session.noise is not None:
        return secret_releases(session)
    reasons = (_SIZES, _BEST, _PLACE, _SETUP)
    sites = [f"site {site}" for site in range(session.job.n_sites)]
    return [
        *(exact(site, reason) for site in sites for reason in reasons),
        exact(ALL_SERVERS, _PLACE),
        *published_releases(session.job),
    ]


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
        replace(one, release=None, derived=reasons, per_release=1)
        if one.release and one.name not in OF_QUESTIONS
        else one
        for one in openings
    ]


def _opening(name: str, audience: str, shape: tuple[int, ...], reason: str, times: int) -> Opening:
    return Opening(
        name, audience, shape, release=f"{reason} ({name})", times=times, per_release=times
    )


def _of_ids(job: SiteJob, name: str, audience: str, shape: tuple[int, ...]) -> Opening:
    return _free_of_values(job, _opening(name, audience, shape, _SETUP, 1))


def _free_of_values(job: SiteJob, opening: Opening) -> Opening:
    """With noise, let what depends on ids and their number cost nothing: see `mark_secret`."""
    if job.epsilon is None:
        return opening
    return replace(opening, release=None, independent=_IDS, per_release=1)
