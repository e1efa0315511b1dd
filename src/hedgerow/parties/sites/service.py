"""What sites, and servers that count for them, answer: requests of a run, and of a site's operator.

The operator's commands call the service of their own site with the site's own certificate, which
nobody else has the key of.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Annotated, Any, Protocol, Self

from pydantic import Field

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate, known_callers
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.consortium.sealing_keys import SignedKey, signed_keys
from hedgerow.parties.sites.answering import InstanceAnswers, veil
from hedgerow.parties.sites.attempt import AttemptStatus, SiteAttempt
from hedgerow.parties.sites.counting import Counting, CountRun
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import LARGEST, jobs_differ
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.table import parsed_ids
from hedgerow.parties.wire.handlers import (
    Caller,
    Incoming,
    NoFields,
    RequestFields,
    ServiceLimits,
    declared_verbs,
    verb,
)
from hedgerow.parties.wire.requests import Fields, Payload, error_fields, parse_error
from hedgerow.parties.wire.service import Service
from hedgerow.protocols.vertical_id3.messages import Token

LONGEST_WAIT = 20.0
"""Seconds for which a question about the status may wait."""
LARGEST_QUESTION = 1 << 24
MOST_INSTANCES = 100_000
_SITES, _BOTH = ("site",), ("site", "server")
_AGAIN = "the party is in that state already, and stays in it."
_READS = "nothing changes."
_LINE = "messages have numbers in their line, and each is taken once."

Reply = tuple[Fields, Payload]


class JobCopyFields(RequestFields):
    """A run, and the hash of the caller's copy of its job."""

    run: str
    hash: str


class TreeFields(JobCopyFields):
    """`tree`: identifier of the attempt, and of the tree that it grows."""

    tree: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class BeginFields(TreeFields):
    """`keys`: sealing keys of the three servers, where these count."""

    keys: list[Any] | None = None


class MessageFields(TreeFields):
    """`what`: "ask" for a question. `line`: drawn by the sender. `first`: its first number."""

    what: str
    line: str
    first: Annotated[int, Field(ge=0)]


class StoreFields(TreeFields):
    """`root`: the site of the root, and its node."""

    root: Annotated[list[int], Field(min_length=2, max_length=2)]


class EndFields(TreeFields):
    """`error`: as in a refusal."""

    error: dict[str, Any]


class RefusedFields(EndFields):
    """`call`: number of the question, in decimal digits."""

    call: Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]


class StatusFields(JobCopyFields):
    """`seen`: version that is known already. `wait`: seconds for which to wait for another."""

    seen: int
    wait: Annotated[float, Field(ge=0, le=LONGEST_WAIT)]


class RunAtParty(Protocol):
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


def check_request(
    run: RunAtParty, caller: Caller, fields: JobCopyFields, *, own: bool = False
) -> None:
    """Refuse who takes no part, and another job.

    `own` requests have to come from the operator of the party that is asked. H871 for another
    caller, H891 for another job.
    """
    job = run.job
    if (caller.name == run.config.name) != own or caller.name not in run.parties:
        expected = "the operator of this site" if own else f"another party of {job.run_id}"
        raise Code.CALLER_NOT_ALLOWED.error(expected=expected, found=caller.name)
    if fields.hash != job.hash or fields.run != job.run_id:
        theirs = jsonfile.shown(fields.hash)
        error = jobs_differ(f"{caller.name} has that of hash {theirs}", run.config.name, job)
        run.note("refused", {"site": caller.name, "error": str(error)})
        raise error


class _RunService(ABC):
    """What both services have in common; H811 if the port is taken."""

    def __init__(self, run: RunAtParty, members: Mapping[str, Caller], port: int) -> None:
        self._of, config = run, run.config
        self.service = Service(
            config.identity,
            members,
            declared_verbs(self),
            host=config.listen or config.me.host,
            port=port,
            limits=ServiceLimits(
                members=max(ServiceLimits.members, ServiceLimits.per_member * len(run.parties)),
            ),
        )

    @abstractmethod
    def _find(
        self, caller: Caller, fields: MessageFields
    ) -> SiteAttempt | InstanceAnswers | Counting:
        """Return what a message is about."""

    def _check(self, caller: Caller, fields: JobCopyFields, *, own: bool = False) -> None:
        check_request(self._of, caller, fields, own=own)

    def _check_starter(self, caller: Caller, fields: JobCopyFields) -> None:
        """Refuse what only the site that begins may say, also to others than that."""
        self._check(caller, fields)
        starter = self._of.job.starter
        if caller.name != starter:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{starter}, which begins", found=caller.name
            )

    def _reply(self, **fields: Any) -> Reply:
        return {"hash": self._of.job.hash, **fields}, None

    def _take(self, caller: Caller, fields: MessageFields, payload: Incoming) -> Reply:
        known = self._find(caller, fields)
        known.receive(caller.name, fields.line, fields.first, payload.read())
        return self._reply()

    def check_message(self, caller: Caller, fields: MessageFields, length: int) -> None:
        """Refuse a message that is about nothing known here, before any of it is read."""
        del length
        self._find(caller, fields)

    def _reason(self, caller: Caller, fields: EndFields) -> HedgerowError:
        error = parse_error(fields.error, caller.name)
        assert error is not None
        return error

    def _keys(self, fields: BeginFields, *, needed: bool) -> tuple[SignedKey, ...]:
        if not needed and fields.keys is not None:
            raise Code.BAD_REQUEST.error(found="keys for nothing")
        return signed_keys(fields.keys) if needed else ()

    @verb("health", _BOTH, twice=_READS)
    def health(self, caller: Caller, fields: NoFields, payload: Incoming) -> Reply:
        """Tell that this party is there.

        Reply: ``version``, ``clock`` and ``members`` (a hash of their list).
        """
        del caller, fields, payload
        return Health.of(self._of.config).to_fields(), None


class SiteService(_RunService):
    """The service of a site in one run."""

    def __init__(self, run: SiteRun) -> None:
        self.run, config = run, run.config
        members = known_callers(config)
        members[Certificate.of(config, config.name).pem] = Caller(config.name, "site")
        super().__init__(run, members, config.me.port)

    def __enter__(self) -> Self:
        self.service.start()
        self.run.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.stop()
        self.service.stop()

    @verb("site-begin", _SITES, twice=_AGAIN)
    def begin(self, caller: Caller, fields: BeginFields, payload: Incoming) -> Reply:
        """Get ready for an attempt, because the site that begins says so."""
        del payload
        self._check_starter(caller, fields)
        self.run.begin(fields.tree, self._keys(fields, needed=self.run.job.secret))
        return self._reply()

    @verb("site-go", _SITES, twice=_AGAIN)
    def go(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Send messages from here on, because the site that begins says so."""
        del payload
        self._check_starter(caller, fields)
        self.run.attempt(fields.tree).go()
        return self._reply()

    def _find(self, caller: Caller, fields: MessageFields) -> InstanceAnswers | SiteAttempt:
        self._check(caller, fields)
        if fields.what != "ask":
            return self.run.attempt(fields.tree)
        if caller.role != "site":
            raise Code.CALLER_NOT_ALLOWED.error(expected="a site that asks", found=caller.name)
        return self.run.answering(fields.tree)

    @verb("site-message", _BOTH, largest=LARGEST, expects="check_message", twice=_LINE)
    def message(self, caller: Caller, fields: MessageFields, payload: Incoming) -> Reply:
        """Take messages of an attempt or of a question; payload: each behind its length."""
        return self._take(caller, fields, payload)

    @verb("site-alive", _BOTH, twice=_READS)
    def alive(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Say whether this site takes part.

        Reply: ``busy``, whether it has something to do, and ``kept``, whether this tree counts.
        """
        del payload
        self._check(caller, fields)
        return self._reply(busy=self.run.takes_part(fields.tree), kept=self.run.counts(fields.tree))

    @verb("site-store", _SITES, twice=_AGAIN)
    def store(self, caller: Caller, fields: StoreFields, payload: Incoming) -> Reply:
        """Write this site's part of the tree, as pending."""
        del payload
        self._check_starter(caller, fields)
        site, node = fields.root
        if not 0 <= site < len(self.run.job.sites) or not 0 < node < 1 << 48:
            raise Code.BAD_REQUEST.error(found="a root that is no token")
        self.run.store(fields.tree, Token(site, node))
        return self._reply()

    @verb("site-keep", _SITES, twice=_AGAIN)
    def keep(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Let the tree count whose part is pending."""
        del payload
        self._check_starter(caller, fields)
        self.run.keep(fields.tree)
        return self._reply()

    @verb("site-end", _BOTH, twice=_AGAIN)
    def end(self, caller: Caller, fields: EndFields, payload: Incoming) -> Reply:
        """End an attempt in which somebody has found a fault."""
        del payload
        self._check(caller, fields)
        self.run.end(fields.tree, caller.name, self._reason(caller, fields))
        return self._reply()

    @verb("site-refused", _SITES, twice="a question that has ended is ended already.")
    def refused(self, caller: Caller, fields: RefusedFields, payload: Incoming) -> Reply:
        """Hear that a question about instances has ended."""
        del payload
        self._check(caller, fields)
        error = self._reason(caller, fields)
        # Who brings the news is not where it happened.
        self.run.answering(fields.tree).end_question(int(fields.call), veil(error))
        return self._reply()

    @verb("site-train", _SITES, twice="an attempt that is under way goes on.")
    def train(self, caller: Caller, fields: JobCopyFields, payload: Incoming) -> Reply:
        """Begin to grow the tree, because this site's operator says so."""
        del payload
        self._check(caller, fields, own=True)
        self.run.train()
        return self._reply()

    @verb("site-status", _SITES, twice=_READS)
    def status(self, caller: Caller, fields: StatusFields, payload: Incoming) -> Reply:
        """Tell this site's operator how far the run is, once that differs from what is known.

        Reply: ``status``.
        """
        del payload
        self._check(caller, fields, own=True)
        version, status = self.run.status(fields.seen, fields.wait)
        root = self.run.root
        shown = status_fields(status, version, None if root is None else str(root))
        return self._reply(status=shown)

    @verb("site-ask", _SITES, largest=LARGEST_QUESTION, twice="the same instances are asked again.")
    def ask(self, caller: Caller, fields: JobCopyFields, payload: Incoming) -> Reply:
        """Ask for the classes of instances, as this site's operator.

        Payload: JSON, ``ids`` with 1 to 100,000 ids as texts. Reply: as payload ``ids``,
        ``counts`` and ``paths``.
        """
        self._check(caller, fields, own=True)
        found = jsonfile.loads(payload.read(), Code.BAD_REQUEST).get("ids")
        if not isinstance(found, list) or not 0 < len(found) <= MOST_INSTANCES:
            raise Code.BAD_REQUEST.error(
                expected=f"1 to {MOST_INSTANCES:,} instances", found="none, or more"
            )
        ids = parsed_ids([str(one) for one in found], self.run.instance_ids)
        counts, paths = self.run.answering().ask(ids)
        answer = {
            "ids": ids.tolist(),
            "counts": None if counts is None else counts.tolist(),
            "paths": paths,
        }
        return {"hash": self.run.job.hash}, json.dumps(answer).encode()


class CountService(_RunService):
    """The service of a server that counts in one run of sites."""

    def __init__(self, run: CountRun) -> None:
        self.run = run
        super().__init__(run, known_callers(run.config), run.config.me.site_port)

    def __enter__(self) -> Self:
        self.service.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.stop()
        self.service.stop()

    @verb("site-key", _SITES, twice="an attempt has one key, which is signed once.")
    def key(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Sign a sealing key for an attempt.

        Reply: ``key``.
        """
        del payload
        self._check_starter(caller, fields)
        return self._reply(key=self.run.sign(fields.tree).to_dict())

    @verb("site-begin", _SITES, twice=_AGAIN)
    def begin(self, caller: Caller, fields: BeginFields, payload: Incoming) -> Reply:
        """Get ready for an attempt, because the site that begins says so."""
        del payload
        self._check_starter(caller, fields)
        self.run.begin(fields.tree, self._keys(fields, needed=True))
        return self._reply()

    def _find(self, caller: Caller, fields: MessageFields) -> Counting:
        self._check(caller, fields)
        return self.run.attempt(fields.tree)

    @verb("site-message", _SITES, largest=LARGEST, expects="check_message", twice=_LINE)
    def message(self, caller: Caller, fields: MessageFields, payload: Incoming) -> Reply:
        """Take questions of an attempt; payload: each behind its length."""
        return self._take(caller, fields, payload)

    @verb("site-alive", _SITES, twice=_READS)
    def alive(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Say whether this server takes part.

        Reply: ``busy``, whether it has something to do.
        """
        del payload
        self._check(caller, fields)
        return self._reply(busy=self.run.takes_part(fields.tree))

    @verb("site-keep", _SITES, twice=_AGAIN)
    def keep(self, caller: Caller, fields: TreeFields, payload: Incoming) -> Reply:
        """Hear that the tree counts."""
        del payload
        self._check_starter(caller, fields)
        self.run.keep(fields.tree)
        return self._reply()

    @verb("site-end", _SITES, twice=_AGAIN)
    def end(self, caller: Caller, fields: EndFields, payload: Incoming) -> Reply:
        """End an attempt in which somebody has found a fault."""
        del payload
        self._check(caller, fields)
        self.run.end(fields.tree, self._reason(caller, fields))
        return self._reply()


def status_fields(status: AttemptStatus, version: int = 0, root: str | None = None) -> Fields:
    """Write a status for the operator's commands."""
    error = None if status.error is None else error_fields(status.error)["error"]
    return {
        "version": version,
        "state": status.state,
        "attempt": status.attempt,
        "waiting_for": list(status.waiting_for),
        "away": list(status.away),
        "nodes": status.nodes,
        "records": None if status.records is None else list(status.records),
        "messages": status.messages,
        "bytes": status.octets,
        "root": root,
        "error": error,
    }
