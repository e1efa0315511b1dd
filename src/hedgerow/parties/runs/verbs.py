"""What a server answers about runs: to clients that post jobs, and to the other servers."""

from __future__ import annotations

import re

from hedgerow.errors import Code
from hedgerow.jsonfile import shown
from hedgerow.parties.runs.jobs import MAX_JOB_BYTES
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.wire.handlers import Caller, Verb
from hedgerow.parties.wire.link import Incoming
from hedgerow.parties.wire.requests import Fields, Payload

CLIENTS = ("owner", "analyst")
ALL = (*CLIENTS, "server")
_SESSION = re.compile(r"[0-9a-f]{32}")
_MOST_LISTED = 200

Answer = tuple[Fields, Payload]


def run_verbs(manager: RunManager) -> dict[str, Verb]:
    """Return the requests about runs.

    ``job`` posts a job, its TOML text as payload (with the field ``check``: asks whether it would
    be taken). ``run-stop`` and ``run-resume`` are for who has posted it, and for owners of its
    uploads; ``run-ready`` and ``run-go`` between servers (`runs.manager`). All can be made twice.
    """
    asked = _Asked(manager)
    return {
        "job": Verb(CLIENTS, asked.job, largest=MAX_JOB_BYTES, idempotent=True),
        "runs": Verb(ALL, asked.runs, idempotent=True),
        "run-show": Verb(ALL, asked.show, idempotent=True),
        "run-stop": Verb(CLIENTS, asked.stop),
        "run-resume": Verb(CLIENTS, asked.resume),
        "run-ready": Verb(("server",), asked.ready, idempotent=True),
        "run-go": Verb(("server",), asked.go, idempotent=True),
    }


class _Asked:
    def __init__(self, manager: RunManager) -> None:
        self.manager = manager

    def job(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        try:
            text = payload.read().decode("utf-8")
        except UnicodeDecodeError:
            raise Code.BAD_JOB.error(found="a text that is not UTF-8") from None
        check = fields.get("check") is True
        return self.manager.accept(text, caller.name, check=check), None

    def runs(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        del caller, fields, payload
        runs = [run.to_fields() for run in self.manager.store.all()][-_MOST_LISTED:]
        for run in runs:
            # Errors are long, and many of them do not fit into one answer.
            run["error"] = None if run["error"] is None else run["error"]["code"]
        return {"server": self.manager.config.name, "runs": runs}, None

    def show(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        del caller, payload
        return self.manager.show(fields.get("run")), None

    def stop(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        del payload
        return self.manager.end(fields.get("run"), caller.name), None

    def resume(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        del payload
        generation = _number(fields, "generation") if "generation" in fields else 0
        return self.manager.resume(fields.get("run"), caller.name, generation), None

    def ready(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        """Tell another server how far this one is."""
        del caller, payload
        return self.manager.ready(fields.get("run"), fields.get("hash")), None

    def go(self, caller: Caller, fields: Fields, payload: Incoming) -> Answer:
        del payload
        first = self.manager.config.servers[0].name
        if caller.name != first:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"run-go by {first}, the first server", found=caller.name
            )
        session = fields.get("session")
        if not isinstance(session, str) or not _SESSION.fullmatch(session):
            raise Code.BAD_REQUEST.error(found=f"session {shown(session)}")
        attempt = _number(fields, "attempt")
        self.manager.go(fields.get("run"), fields.get("hash"), attempt, bytes.fromhex(session))
        return {}, None


def _number(fields: Fields, key: str) -> int:
    value = fields.get(key)
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise Code.BAD_REQUEST.error(found=f"{key} {shown(value)}")
    return value
