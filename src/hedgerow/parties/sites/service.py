"""What sites, and servers that count for them, answer: requests of a run, and of a site's operator.

The operator's commands call the service of their own site with the site's own certificate, which
nobody else has the key of.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate, known_callers
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.consortium.sealing_keys import signed_keys
from hedgerow.parties.sites.answering import InstanceAnswers, veil
from hedgerow.parties.sites.attempt import Attempt, AttemptStatus
from hedgerow.parties.sites.counting import Counting, CountRun
from hedgerow.parties.sites.job import VerticalJob
from hedgerow.parties.sites.post import LARGEST, jobs_differ
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.store import is_tree
from hedgerow.parties.sites.table import parsed_ids
from hedgerow.parties.wire.handlers import Caller, ServiceLimits, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload, error_fields, parse_error
from hedgerow.parties.wire.service import Service
from hedgerow.protocols.vertical_id3.messages import Token

LONGEST_WAIT = 20.0
"""Seconds for which a question about the status may wait."""
LARGEST_QUESTION = 1 << 24
MOST_INSTANCES = 100_000
_RUN = ("run", "hash")
_SITES, _BOTH = ("site",), ("site", "server")

Reply = tuple[Fields, Payload]
Function = Callable[[Caller, Fields, Incoming], Reply]


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
    run: RunAtParty, caller: Caller, fields: Fields, *keys: str, own: bool = False
) -> str:
    """Refuse who takes no part, and another job; return the tree that a request is about.

    The request must have the fields of the job and `keys`; `own` ones have to come from the
    operator of the party that is asked. H872 for other fields, H871 for another caller, H891 for
    another job.
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


class _RunService(ABC):
    """What both services have in common; H811 if the port is taken."""

    def __init__(
        self,
        run: RunAtParty,
        members: Mapping[str, Caller],
        port: int,
        verbs: Mapping[str, tuple[Function, int, tuple[str, ...]]],
    ) -> None:
        self._of, config = run, run.config
        handlers = {
            name: Verb(
                callers,
                function,
                largest=largest,
                idempotent=True,
                expects=self._check_message if name == "site-message" else None,
            )
            for name, (function, largest, callers) in verbs.items()
        }
        self.service = Service(
            config.identity,
            dict(members),
            handlers | {"health": Verb(_BOTH, self._health, idempotent=True)},
            host=config.listen or config.me.host,
            port=port,
            limits=ServiceLimits(
                skew=config.timeouts.clock,
                members=max(ServiceLimits.members, ServiceLimits.per_member * len(run.parties)),
            ),
        )

    @abstractmethod
    def _find(self, caller: Caller, fields: Fields) -> Attempt | InstanceAnswers | Counting:
        """Return what a message is about."""

    def _check(self, caller: Caller, fields: Fields, *keys: str, own: bool = False) -> str:
        return check_request(self._of, caller, fields, *keys, own=own)

    def _check_starter(self, caller: Caller) -> None:
        """Refuse what only the site that begins may say."""
        starter = self._of.job.starter
        if caller.name != starter:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{starter}, which begins", found=caller.name
            )

    def _reply(self, **fields: Any) -> Reply:
        return {"hash": self._of.job.hash, **fields}, None

    def _message(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        known = self._find(caller, fields)
        known.receive(caller.name, fields["line"], fields["first"], payload.read())
        return self._reply()

    def _check_message(self, caller: Caller, fields: Fields, length: int) -> None:
        """Refuse a message that is about nothing known here, before any of it is read."""
        del length
        self._find(caller, fields)

    def _reason(self, caller: Caller, fields: Fields) -> HedgerowError:
        error = parse_error(fields["error"], caller.name)
        if error is None:
            raise Code.BAD_REQUEST.error(found="an end without a reason")
        return error

    def _health(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del caller, fields, payload
        return Health.of(self._of.config).to_fields(), None


class SiteService(_RunService):
    """The service of a site in one run."""

    def __init__(self, run: SiteRun) -> None:
        self.run, config = run, run.config
        members = known_callers(config)
        members[Certificate.of(config, config.name).pem] = Caller(config.name, "site")
        super().__init__(
            run,
            members,
            config.me.port,
            {
                "site-begin": (self._begin, 0, _SITES),
                "site-go": (self._go, 0, _SITES),
                "site-message": (self._message, LARGEST, _BOTH),
                "site-alive": (self._alive, 0, _BOTH),
                "site-store": (self._store, 0, _SITES),
                "site-keep": (self._keep, 0, _SITES),
                "site-end": (self._end, 0, _BOTH),
                "site-refused": (self._refused, 0, _SITES),
                "site-train": (self._train, 0, _SITES),
                "site-status": (self._status, 0, _SITES),
                "site-ask": (self._ask, LARGEST_QUESTION, _SITES),
            },
        )

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

    def _begin(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        secret = self.run.job.secret
        tree = self._check(caller, fields, "tree", *(["keys"] if secret else []))
        self._check_starter(caller)
        self.run.begin(tree, signed_keys(fields["keys"]) if secret else ())
        return self._reply()

    def _go(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree")
        self._check_starter(caller)
        self.run.attempt(tree).go()
        return self._reply()

    def _find(self, caller: Caller, fields: Fields) -> InstanceAnswers | Attempt:
        tree = self._check(caller, fields, "tree", "what", "line", "first")
        if fields["what"] != "ask":
            return self.run.attempt(tree)
        if caller.role != "site":
            raise Code.CALLER_NOT_ALLOWED.error(expected="a site that asks", found=caller.name)
        return self.run.answering(tree)

    def _alive(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree")
        return self._reply(busy=self.run.takes_part(tree), kept=self.run.counts(tree))

    def _store(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree, root = self._check(caller, fields, "tree", "root"), fields["root"]
        self._check_starter(caller)
        if (
            not isinstance(root, list)
            or len(root) != 2
            or any(type(part) is not int for part in root)
            or not 0 <= root[0] < len(self.run.job.sites)
            or not 0 < root[1] < 1 << 48
        ):
            raise Code.BAD_REQUEST.error(found="a root that is no token")
        self.run.store(tree, Token(*root))
        return self._reply()

    def _keep(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree")
        self._check_starter(caller)
        self.run.keep(tree)
        return self._reply()

    def _end(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree", "error")
        self.run.end(tree, caller.name, self._reason(caller, fields))
        return self._reply()

    def _refused(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree", "call", "error")
        error, call = parse_error(fields["error"], caller.name), fields["call"]
        if error is None or not isinstance(call, str) or not call.isdecimal() or len(call) > 20:
            raise Code.BAD_REQUEST.error(found="a refusal without a reason, or of no question")
        # Who brings the news is not where it happened.
        self.run.answering(tree).end_question(int(call), veil(error))
        return self._reply()

    def _train(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        self._check(caller, fields, own=True)
        self.run.train()
        return self._reply()

    def _status(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        self._check(caller, fields, "seen", "wait", own=True)
        seen, wait = fields["seen"], fields["wait"]
        if type(seen) is not int or type(wait) not in (int, float) or not 0 <= wait <= LONGEST_WAIT:
            raise Code.BAD_REQUEST.error(found="a time to wait that is none")
        version, status = self.run.status(seen, wait)
        root = self.run.root
        shown = status_fields(status, version, None if root is None else str(root))
        return self._reply(status=shown)

    def _ask(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
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
        super().__init__(
            run,
            known_callers(run.config),
            run.config.me.site_port,
            {
                "site-key": (self._key, 0, _SITES),
                "site-begin": (self._begin, 0, _SITES),
                "site-message": (self._message, LARGEST, _SITES),
                "site-alive": (self._alive, 0, _SITES),
                "site-keep": (self._keep, 0, _SITES),
                "site-end": (self._end, 0, _SITES),
            },
        )

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

    def _key(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree")
        self._check_starter(caller)
        return self._reply(key=self.run.sign(tree).to_dict())

    def _begin(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree", "keys")
        self._check_starter(caller)
        self.run.begin(tree, signed_keys(fields["keys"]))
        return self._reply()

    def _find(self, caller: Caller, fields: Fields) -> Counting:
        return self.run.attempt(self._check(caller, fields, "tree", "what", "line", "first"))

    def _alive(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        return self._reply(busy=self.run.takes_part(self._check(caller, fields, "tree")))

    def _keep(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree")
        self._check_starter(caller)
        self.run.keep(tree)
        return self._reply()

    def _end(self, caller: Caller, fields: Fields, payload: Incoming) -> Reply:
        del payload
        tree = self._check(caller, fields, "tree", "error")
        self.run.end(tree, self._reason(caller, fields))
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
