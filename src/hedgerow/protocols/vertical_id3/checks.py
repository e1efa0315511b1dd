"""What a site refuses before it acts on a message: other sets than announced, other times."""

from __future__ import annotations

from collections.abc import Mapping

from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3 import messages as wire
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced, most_nodes, possible_groups
from hedgerow.protocols.vertical_id3.secret.messages import Half
from hedgerow.protocols.vertical_id3.set_cardinality import RECORDS

_FIRST = (wire.Announce, wire.Ready)
_QUESTIONS = (wire.Classify, wire.Answers, wire.Kept)
ALIGN, ANNOUNCE, READY = 1, 2, 3
"""Numbers of the calls that every run has once."""
_CALLS: Mapping[type[wire.Message], int] = {
    wire.Announce: ANNOUNCE,
    wire.Ready: READY,
    wire.Common: ALIGN,
}
_REQUESTS = (wire.NodeCall, wire.BringSet, wire.CompareStart)


def check_groups(
    job: SiteJob, announced: Mapping[int, Announced], owner: int, purpose: int, sizes: list[int]
) -> None:
    """Refuse a set in groups that contradict what its owner announced.

    Raises
    ------
    InputError
        H754, with the name of the site.
    """
    allowed, most, limit = {1}, None, "any number"
    if purpose != RECORDS:
        said = announced[owner]
        allowed, most, limit = possible_groups(job, owner, said), said.records, f"{said.records:,}"
    if len(sizes) not in allowed or (most is not None and sum(sizes) > most):
        raise Code.SITE_CONTRADICTS.error(
            expected=f"{' or '.join(map(str, sorted(allowed)))} groups of records, at most {limit} "
            "in all",
            found=f"{len(sizes)} groups with {sum(sizes):,} records of site {owner}",
        )


def check_announced(
    job: SiteJob, sender: int, message: wire.Announce, records: int, again: bool
) -> Announced:
    """Return what a site announces, if it fits the job and this site's own records.

    Raises
    ------
    InputError
        H755 for another job, H754 for sizes that cannot be, H111 for another number of records.
    """
    said = Announced(message.values, message.classes, message.records)
    if message.job != job.digest():
        raise Code.BAD_SITES.error(found=f"another job at site {sender}")
    expected = job.n_classes if job.knows_class(sender) else 0
    if again or said.classes != expected or 0 in said.values:
        raise Code.SITE_CONTRADICTS.error(found=f"{said} of site {sender}")
    if said.records != records:
        raise Code.IDS_DO_NOT_ALIGN.error(
            found=f"{records:,} records here, {said.records:,} at site {sender}",
            fix="align the records first (align=True), or bring the same ids at every site",
        )
    return said


def check_time(
    job: SiteJob, sender: int, message: wire.Message, *, begun: bool, grown: bool
) -> None:
    """Refuse what comes before its time or after it, and sites that there are none of; H752."""
    name, kind = f"site {sender}", type(message).__name__
    if (sender >= job.n_sites) != isinstance(message, Half):
        # Servers answer, and do nothing else.
        raise wire.bad_message(f"party {sender}", f"{kind}, which is not for it to send")
    aligning = isinstance(message, wire.Common)
    if isinstance(message, wire.BringSet | wire.PassSet):
        aligning = message.purpose == RECORDS
        # Some sites alone would tell which of their ids are there.
        everybody = tuple(range(job.n_sites)), job.starter
        if aligning and (message.ring, message.counter) != everybody:
            raise wire.bad_message(name, f"{kind} to align records of the sites {message.ring}")
    named = getattr(message, "ring", ()) + getattr(message, "constrained", ())
    if any(site >= job.n_sites for site in named):
        raise wire.bad_message(name, f"{kind} with a site that is not in this run")
    if aligning and (begun or not job.align):
        raise wire.bad_message(name, f"{kind} to align records, out of its time")
    if not (aligning or begun or isinstance(message, _FIRST)):
        raise wire.bad_message(name, f"{kind} before its time")
    if grown and not isinstance(message, _QUESTIONS):
        raise wire.bad_message(name, f"{kind} after the tree was grown")
    if isinstance(message, _REQUESTS) and not aligning:
        # Every site numbers its own calls, so that nobody can take another's.
        fits = message.call >> 48 == sender + 1
    else:
        fits = message.call == _CALLS.get(type(message), ALIGN if aligning else message.call)
    if not fits:
        raise wire.bad_message(name, f"{kind} in a call that is not its own")


def check_node(
    job: SiteJob, announced: Mapping[int, Announced], sender: int, message: wire.NodeCall
) -> None:
    """Refuse a node that no tree of this job can have; H752."""
    attributes = sum(len(said.values) for said in announced.values())
    levels = attributes if job.max_depth is None else min(job.max_depth, attributes)
    deepest = levels if isinstance(message, wire.AskLeaf) else levels - 1
    if (
        message.depth > deepest
        or not message.depth < message.number <= most_nodes(job, announced)
        or list(message.constrained) != sorted(set(message.constrained))
        or not (message.depth > 0) <= len(message.constrained) <= message.depth
    ):
        raise wire.bad_message(
            f"site {sender}", f"node {message.number} at depth {message.depth}, which cannot be"
        )
