"""`SiteClient`: the operator of a site, as it speaks to its own service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.sites.job import VerticalJob, not_the_starter
from hedgerow.parties.wire.client import Lines, Reply, call
from hedgerow.parties.wire.requests import Fields, parse_error

_WAIT, _PAUSE = 10.0, 0.1
_LARGEST = 1 << 28


@dataclass(frozen=True)
class InstanceAnswer:
    """What became of a question about one instance.

    Class counts of its leaf, None where the class site keeps them; and its tokens, as far as this
    site sees them: the last one may lie elsewhere.
    """

    id: int | str
    counts: tuple[int, ...] | None
    path: tuple[str, ...]


class SiteClient:
    """Commands to the service of this site."""

    def __init__(self, config: PartyConfig, job: VerticalJob) -> None:
        job.index(config)
        self._config, self._job = config, job
        self._lines = Lines(config.identity, config.certificate(config.name))

    def train(self, tell: Callable[[Fields], None] = lambda status: None) -> Fields:
        """Grow the tree; returns the last status, and tells every one on the way.

        Raises why it has failed: H842 for a site that was lost, H891 for another job somewhere, or
        what a site has found wrong.
        """
        if self._config.name != self._job.starter:
            raise not_the_starter(self._job, self._config.name)
        self._call("site-train", {})
        seen = -1
        while True:
            status = self.status(seen, _WAIT)
            tell(status)
            seen = status["version"]
            if status["state"] == "grown":
                return status
            error = parse_error(status["error"], self._config.name)
            if status["state"] == "failed" and error is not None:
                raise _at_home(error, self._config.name)
            # There is news with every message; nobody reads so fast.
            time.sleep(_PAUSE)

    def status(self, seen: int = -1, wait: float = 0.0) -> Fields:
        """Ask how far the run is; waits for another version than `seen`."""
        status = self._call("site-status", {"seen": seen, "wait": wait}).fields.get("status")
        if not isinstance(status, dict):
            raise Code.BAD_REPLY.error(expected="a status of this site", found="none")
        return status

    def ask(self, ids: list[str]) -> list[InstanceAnswer]:
        """Ask for the classes of instances; errors are those of `InstanceAnswers.ask`."""
        seconds = self._job.timeouts.answer + self._config.timeouts.request
        reply = self._call("site-ask", {}, json.dumps({"ids": ids}).encode(), seconds)
        with jsonfile.refusing(Code.BAD_REPLY):
            found: dict[str, Any] = jsonfile.loads(reply.payload, Code.BAD_REPLY)
            counts = found["counts"] or [None] * len(ids)
            rows = zip(found["ids"], counts, found["paths"], strict=True)
            return [
                InstanceAnswer(name, None if own is None else tuple(own), tuple(path))
                for name, own, path in rows
            ]

    def _call(
        self, verb: str, fields: Fields, payload: bytes | None = None, seconds: float | None = None
    ) -> Reply:
        config, job = self._config, self._job
        try:
            return call(
                (config.listen or config.me.host, config.me.port),
                config.identity,
                config.certificate(config.name),
                verb,
                {"run": job.run_id, "hash": job.hash, **fields},
                payload,
                name=config.name,
                timeout=seconds or config.timeouts.request,
                connect_timeout=config.timeouts.connect,
                largest_reply=_LARGEST,
                lines=self._lines,
            )
        except HedgerowError as error:
            if error.code is Code.SERVICE_UNREACHABLE:
                raise Code.SERVICE_UNREACHABLE.error(
                    expected=error.expected,
                    found=error.found,
                    fix="run `hedgerow site serve` for this job in another terminal, and leave it "
                    "running",
                ) from None
            raise _at_home(error, config.name) from None


def _at_home(error: HedgerowError, name: str) -> HedgerowError:
    """Leave out that it was this party that said so."""
    found = error.found.removesuffix(f" (at {name})").replace(f", says {name})", ")")
    made = error.code.error(expected=error.expected, found=found, fix=error.fix)
    made.party = error.party
    return made
