"""What servers of a vertical ID3 refuse before they open a part: questions that do not follow."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced, possible_groups
from hedgerow.protocols.vertical_id3.messages import bad_message
from hedgerow.protocols.vertical_id3.secret.messages import SAME, SIZES, AskServers, BeginServers
from hedgerow.protocols.vertical_id3.secret.parts import Session


def session_of(job: SiteJob, sender: int, message: BeginServers) -> Session:
    """Return the session that the first question of a run begins.

    Raises
    ------
    FormatError
        H752 if it is that of another job or site, or its sizes are none.
    """
    if (
        sender != job.starter
        or message.job != job.digest()
        or len(message.attributes) != job.n_sites
        or sum(message.attributes) != len(message.values)
        or 0 in message.values
    ):
        raise bad_message(f"site {sender}", "the beginning of another run")
    announced, at = {}, 0
    for site, n in enumerate(message.attributes):
        classes = job.n_classes if job.knows_class(site) else 0
        announced[site] = Announced(message.values[at : at + n], classes, message.records)
        at += n
    return Session(job, announced)


def first_question(job: SiteJob, message: BeginServers) -> AskServers:
    """Return the question that begins a run in the form of all others."""
    ring = tuple(range(job.n_sites))
    return AskServers(message.call, SAME, message.counter, ring, (1,) * job.n_sites, message.parts)


def checked_question(
    session: Session, sender: int, asked: Mapping[int, AskServers], done: Container[int]
) -> AskServers:
    """Return the question that all servers of a process were asked, without its parts.

    Parameters
    ----------
    session : Session
    sender : int
        The site that asks.
    asked : mapping of int to AskServers
        By server.
    done : container of int
        Calls that were answered.

    Raises
    ------
    HedgerowError
        H752 for another call or ring than can be, H754 for other sizes than announced.
    """
    job, name = session.job, f"site {sender}"
    found = {replace(message, parts=()) for message in asked.values()}
    question = next(iter(found))
    ring, groups = question.ring, question.groups
    if len(found) > 1 or question.counter != sender or question.call in done:
        raise bad_message(name, f"call {question.call}, of another site or a second time")
    if (
        list(ring) != sorted(set(ring))
        or sender not in ring
        or len(ring) < 2
        or ring[-1] >= job.n_sites
        or {len(groups), *(len(message.parts) for message in asked.values())} != {len(ring)}
        or (question.what != SIZES and len(ring) != job.n_sites)
    ):
        raise bad_message(name, f"a question about the sites {ring}")
    for site, n in zip(ring, groups, strict=True):
        known = _may_bring(session, site, question) if question.what == SIZES else {1}
        if n not in known:
            raise Code.SITE_CONTRADICTS.error(
                expected=f"{' or '.join(map(str, sorted(known)))} groups of records",
                found=f"{n} groups of site {site}",
            )
    return question


def holder_of(job: SiteJob, question: AskServers) -> int | None:
    """Return the place in the ring of a class site that does not count itself, if there is one."""
    if job.class_at is None or job.class_at == question.counter:
        return None
    return question.ring.index(job.class_at) if job.class_at in question.ring else None


def _may_bring(session: Session, site: int, question: AskServers) -> set[int]:
    """Return in how many groups a site may bring its set: the counter's values, the classes."""
    job = session.job
    if site == question.counter:
        return possible_groups(job, site, session.announced[site])
    return {job.n_classes} if job.class_at == site else {1}
