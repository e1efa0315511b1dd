"""`CountService`: what a server that counts answers: requests of the sites of one run."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from hedgerow.errors import Code
from hedgerow.parties.consortium.members import known_callers
from hedgerow.parties.consortium.reach import Health
from hedgerow.parties.consortium.sealing_keys import signed_keys
from hedgerow.parties.sites.count_run import CountRun
from hedgerow.parties.sites.counting import Counting
from hedgerow.parties.sites.post import LARGEST
from hedgerow.parties.sites.requests import check_request, check_starter
from hedgerow.parties.wire.handlers import Caller, ServiceLimits, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload, parse_error
from hedgerow.parties.wire.service import Service


class CountService:
    """The service of a server in one run of sites.

    Parameters
    ----------
    run : CountRun

    Raises
    ------
    NetworkError
        H811 if the port is taken.
    """

    def __init__(self, run: CountRun) -> None:
        self.run, config = run, run.config
        verbs = {
            "site-key": self._key,
            "site-begin": self._begin,
            "site-message": self._message,
            "site-alive": self._alive,
            "site-keep": self._keep,
            "site-end": self._end,
        }
        handlers = {
            name: Verb(
                ("site",),
                function,
                largest=LARGEST if name == "site-message" else 0,
                idempotent=True,
                expects=self._expected if name == "site-message" else None,
            )
            for name, function in verbs.items()
        }
        everybody = ("site", "server")
        self.service = Service(
            config.identity,
            known_callers(config),
            handlers | {"health": Verb(everybody, self._health, idempotent=True)},
            host=config.listen or config.me.host,
            port=config.me.site_port,
            limits=ServiceLimits(
                skew=config.timeouts.clock,
                members=max(ServiceLimits.members, ServiceLimits.per_member * len(run.parties)),
            ),
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

    def _checked(self, caller: Caller, fields: Fields, *keys: str) -> str:
        return check_request(self.run, caller, fields, *keys)

    def _said(self, **fields: Any) -> tuple[Fields, Payload]:
        return {"hash": self.run.job.hash, **fields}, None

    def _key(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree")
        check_starter(self.run, caller)
        return self._said(key=self.run.sign(tree).to_dict())

    def _begin(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree", "keys")
        check_starter(self.run, caller)
        self.run.begin(tree, signed_keys(fields["keys"]))
        return self._said()

    def _message(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        attempt = self._known(caller, fields)
        attempt.arrived(caller.name, fields["line"], fields["first"], payload.read())
        return self._said()

    def _expected(self, caller: Caller, fields: Fields, length: int) -> None:
        """Refuse a message that is about nothing known here, before any of it is read."""
        del length
        self._known(caller, fields)

    def _known(self, caller: Caller, fields: Fields) -> Counting:
        return self.run.attempt(self._checked(caller, fields, "tree", "what", "line", "first"))

    def _alive(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        return self._said(busy=self.run.takes_part(self._checked(caller, fields, "tree")))

    def _keep(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree")
        check_starter(self.run, caller)
        self.run.keep(tree)
        return self._said()

    def _end(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del payload
        tree = self._checked(caller, fields, "tree", "error")
        error = parse_error(fields["error"], caller.name)
        if error is None:
            raise Code.BAD_REQUEST.error(found="an end without a reason")
        self.run.end(tree, error)
        return self._said()

    def _health(self, caller: Caller, fields: Fields, payload: Incoming) -> tuple[Fields, Payload]:
        del caller, fields, payload
        return Health.of(self.run.config).to_fields(), None
