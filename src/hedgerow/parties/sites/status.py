"""`Status`: how far an attempt is, and what the others are told of its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import is_away

State = Literal["gathering", "growing", "storing", "grown", "failed"]
BEAT = 1.0
"""Seconds between two questions whether a site still takes part."""


@dataclass(frozen=True)
class Status:
    """How far an attempt is.

    Attributes
    ----------
    state : {"idle", "gathering", "growing", "storing", "grown", "failed"}
    attempt : str
    waiting_for : tuple of str
        Who has something to do, or has not come yet.
    away : tuple of str
        Who of them is not reached.
    nodes : int
        Of the tree, at this site.
    records : tuple of int or None
        How many of this site's records all sites have, and how many it has; None before that is
        known.
    messages, octets : int
        Sent by this site.
    error : HedgerowError or None
    """

    state: State | Literal["idle"]
    attempt: str = ""
    waiting_for: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    nodes: int = 0
    records: tuple[int, int] | None = None
    messages: int = 0
    octets: int = 0
    error: HedgerowError | None = None


def for_servers(error: HedgerowError, name: str) -> HedgerowError:
    """Return what servers are told of the end of an attempt: who is lost, and no other reason.

    What sites find out about each other, such as that their ids differ, is not for them.
    """
    if error.code is Code.SITE_LOST:
        return error
    return Code.SITE_LOST.error(found=f"{name} has ended the attempt; its operator knows why")


def lost(name: str, error: HedgerowError, job: VerticalJob) -> HedgerowError:
    """Say that a party is lost, where that is what an error of a request to it means."""
    if is_away(error):
        site = name in job.sites
        those = f"of the sites {', '.join(job.sites)}" if site else "of the three servers"
        verb = "serve" if site else "count"
        return Code.SITE_LOST.error(
            expected=f"{name}, one {those}",
            found=f"{name} is not reached: {error.found}",
            fix=f"have {name} run `hedgerow site {verb}`, then {job.starter} `hedgerow site train`",
        )
    if error.code is Code.WRONG_RUN_STATE and error.party == name:
        return Code.SITE_LOST.error(
            expected=f"{name} until the end of the attempt",
            found=f"{name} was started again, and knows nothing of it",
        )
    return error
