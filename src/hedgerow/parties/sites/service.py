"""`SiteService`: what a site answers: requests of the other sites, and of its own operator.

The operator's commands call the service of their own site with the site's own certificate, which
nobody else has the key of.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hedgerow import jsonfile
from hedgerow.errors import Code
from hedgerow.parties.consortium.members import Certificate, known_callers
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.consortium.sealing_keys import signed_keys
from hedgerow.parties.sites.answering import Answering
from hedgerow.parties.sites.attempt import Attempt
from hedgerow.parties.sites.post import LARGEST
from hedgerow.parties.sites.requests import check_request, check_starter
from hedgerow.parties.sites.run import SiteRun
from hedgerow.parties.sites.status import Status
from hedgerow.parties.sites.table import parsed_ids
from hedgerow.parties.sites.way_back import veiled
from hedgerow.parties.wire.handlers import Caller, ServiceLimits, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload, error_fields, parse_error
from hedgerow.parties.wire.service import Service
from hedgerow.protocols.vertical_id3.messages import Token

LONGEST_WAIT = 20.0
"""Seconds for which a question about the status may wait."""
LARGEST_QUESTION = 1 << 24
MOST_INSTANCES = 100_000

Function = Callable[[Caller, Fields, Incoming], tuple[Fields, Payload]]


class SiteService:
    """The service of a site in one run.

    Parameters
    ----------
    run : SiteRun

    Raises
    ------
    NetworkError
        H811 if the port is taken.
    """

    def __init__(self, run: SiteRun) -> None:
        self.run, config = run, run.config
        members = known_callers(config)
        members[Certificate.of(config, config.name).pem] = Caller(config.name, "site")
        verbs: dict[str, tuple[Function, int]] = {
            "site-begin": (self._begin, 0),
            "site-go": (self._go, 0),
            "site-message": (self._message, LARGEST),
            "site-alive": (self._alive, 0),
            "site-store": (self._store, 0),
            "site-keep": (self._keep, 0),
            "site-end": (self._end, 0),
            "site-refused": (self._refused, 0),
            "site-train": (self._train, 0),
            "site-status": (self._status, 0),
            "site-ask": (self._ask, LARGEST_QUESTION),
        }
        servers = ("site-message", "site-alive", "site-end")
        handlers = {
            name: Verb(
                ("site", "server") if name in servers else ("site",),
                function,
                largest=largest,
                idempotent=True,
                expects=self._expected if name == "site-message" else None,
            )
            for name, (function, largest) in verbs.items()
        }
        everybody = ("site", "server")
        self.service = Service(
            config.identity,
            members,
            handlers | {"health": Verb(everybody, self._health, idempotent=True)},
            host=config.listen or config.me.host,
            port=config.me.port,
            limits=ServiceLimits(
                skew=config.timeouts.clock,
                members=max(ServiceLimits.members, ServiceLimits.per_member * len(run.parties)),
            ),
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

    def _checked(self, caller: Caller, fields: Fields, *keys: str, own: bool = False) -> str:
        return check_request(self.run, caller, fields, *keys, own=own)

    def _by_starter(self, caller: Caller) -> None:
        check_starter(self.run, caller)

    def _said(self, **fields: Any) -> tuple[Fields, Payload]:
        return {"hash": self.run.job.hash, **fields}, None

    def _begin(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        secret = self.run.job.secret
        tree = self._checked(caller, fields, "tree", *(["keys"] if secret else []))
        self._by_starter(caller)
        self.run.begin(tree, signed_keys(fields["keys"]) if secret else ())
        return self._said()

    def _go(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree")
        self._by_starter(caller)
        self.run.attempt(tree).go()
        return self._said()

    def _message(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        known = self._known(caller, fields)
        known.arrived(caller.name, fields["line"], fields["first"], payload.read())
        return self._said()

    def _expected(self, caller: Caller, fields: Fields, length: int) -> None:
        """Refuse a message that is about nothing known here, before any of it is read."""
        del length
        self._known(caller, fields)

    def _known(self, caller: Caller, fields: Fields) -> Answering | Attempt:
        tree = self._checked(caller, fields, "tree", "what", "line", "first")
        if fields["what"] != "ask":
            return self.run.attempt(tree)
        if caller.role != "site":
            raise Code.CALLER_NOT_ALLOWED.error(expected="a site that asks", found=caller.name)
        return self.run.answering(tree)

    def _alive(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree")
        return self._said(busy=self.run.takes_part(tree), kept=self.run.counts(tree))

    def _store(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree, root = self._checked(caller, fields, "tree", "root"), fields["root"]
        self._by_starter(caller)
        if (
            not isinstance(root, list)
            or len(root) != 2
            or any(type(part) is not int for part in root)
            or not 0 <= root[0] < len(self.run.job.sites)
            or not 0 < root[1] < 1 << 48
        ):
            raise Code.BAD_REQUEST.error(found="a root that is no token")
        self.run.store(tree, Token(*root))
        return self._said()

    def _keep(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree")
        self._by_starter(caller)
        self.run.keep(tree)
        return self._said()

    def _end(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree", "error")
        error = parse_error(fields["error"], caller.name)
        if error is None:
            raise Code.BAD_REQUEST.error(found="an end without a reason")
        self.run.end(tree, caller.name, error)
        return self._said()

    def _refused(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree", "call", "error")
        error, call = parse_error(fields["error"], caller.name), fields["call"]
        if error is None or not isinstance(call, str) or not call.isdecimal() or len(call) > 20:
            raise Code.BAD_REQUEST.error(found="a refusal without a reason, or of no question")
        # Who brings the news is not where it happened.
        self.run.answering(tree).refused(int(call), veiled(error))
        return self._said()

    def _train(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        self._checked(caller, fields, own=True)
        self.run.train()
        return self._said()

    def _status(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        self._checked(caller, fields, "seen", "wait", own=True)
        seen, wait = fields["seen"], fields["wait"]
        if type(seen) is not int or type(wait) not in (int, float) or not 0 <= wait <= LONGEST_WAIT:
            raise Code.BAD_REQUEST.error(found="a time to wait that is none")
        version, status = self.run.status(seen, wait)
        root = self.run.root
        shown = status_fields(status, version, None if root is None else str(root))
        return self._said(status=shown)

    def _ask(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        self._checked(caller, fields, own=True)
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

    def _health(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del caller, fields, payload
        return Health.of(self.run.config).to_fields(), None


def status_fields(status: Status, version: int = 0, root: str | None = None) -> Fields:
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
