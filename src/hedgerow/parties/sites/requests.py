"""What a request in a run of sites must be, whoever answers it: a site, or a server that counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.nodes import is_tree
from hedgerow.parties.sites.post import jobs_differ
from hedgerow.parties.wire.handlers import Caller
from hedgerow.parties.wire.requests import Fields

_RUN = ("run", "hash")


class Run(Protocol):
    """A run, at a site or at a server."""

    note: Callable[[str, dict[str, Any]], None]

    @property
    def config(self) -> PartyConfig:
        """Of the party that is asked."""

    @property
    def job(self) -> VerticalJob:
        """Its copy of the job."""

    @property
    def parties(self) -> tuple[str, ...]:
        """All who take part."""


def check_request(run: Run, caller: Caller, fields: Fields, *keys: str, own: bool = False) -> str:
    """Refuse who takes no part, and another job; return the tree that a request is about.

    Parameters
    ----------
    run : Run
    caller : Caller
    fields : dict
    *keys : str
        Fields that it must have, besides those of the job.
    own : bool
        Whether it has to come from the operator of the party that is asked.

    Raises
    ------
    HedgerowError
        H872 for other fields, H871 for another caller, H891 for another job.
    """
    job = run.job
    if set(fields) != {*_RUN, *keys}:
        raise Code.BAD_REQUEST.error(
            expected=f"the fields {', '.join(sorted({*_RUN, *keys}))}", found="other fields"
        )
    if (caller.name == run.config.name) != own or caller.name not in run.parties:
        expected = "the operator of this site" if own else f"another party of {job.run_id}"
        raise Code.CALLER_NOT_ALLOWED.error(expected=expected, found=caller.name)
    if fields["hash"] != job.hash or fields["run"] != job.run_id:
        theirs = jsonfile.shown(fields["hash"])
        error = jobs_differ(f"{caller.name} has that of hash {theirs}", run.config.name, job)
        run.note("refused", {"site": caller.name, "error": str(error)})
        raise error
    tree = fields.get("tree", "")
    if "tree" in keys and not is_tree(tree):
        raise Code.BAD_REQUEST.error(found="an attempt that is none")
    return str(tree)


def check_starter(run: Run, caller: Caller) -> None:
    """Refuse what only the site that begins may say."""
    if caller.name != run.job.starter:
        raise Code.CALLER_NOT_ALLOWED.error(
            expected=f"{run.job.starter}, which begins", found=caller.name
        )
