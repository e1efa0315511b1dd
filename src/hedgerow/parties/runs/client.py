"""Runs as owners and analysts see them: post a job, look at a run, stop and resume it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.wire.client import Reply, ServerClient, call_member
from hedgerow.parties.wire.requests import Fields, parse_error

if TYPE_CHECKING:
    # A job brings all protocols with it, and who looks at runs needs none.
    from hedgerow.parties.runs.jobs import Job

_LEVEL_COST = 8
"""Of a level besides its nodes, in nodes: for the expected time alone."""


@dataclass(frozen=True)
class RunStatus:
    """A run at all servers together: ``done`` at all, ``failed`` or ``stopped`` at one.

    `level`, `nodes` are of the level under way, -1 where nobody has said; `octets` and `seconds` of
    this attempt; `left` are expected seconds to the end of the last level; `servers` says
    ``unreachable`` of one that does not answer.
    """

    run: str
    state: str
    attempt: int = 0
    level: int = -1
    depth: int = -1
    nodes: int = -1
    octets: int = 0
    seconds: float = 0.0
    left: float | None = None
    waiting_for: tuple[str, ...] = ()
    servers: dict[str, str] = field(default_factory=dict)
    error: HedgerowError | None = None
    reason: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state in ("done", "failed", "stopped")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("error", "octets")}
        error = None if self.error is None else self.error.code.number
        return plain | {"bytes": self.octets, "error": error}


class RunClient(ServerClient):
    """The three servers, to be asked about runs; see `ServerClient`."""

    def post(self, job: Job) -> str:
        """Post a job to all servers, or to none if one of them refuses it; return its run."""
        self._check_client()
        text = job.to_toml().encode()
        for fields in ({"check": True}, {}):
            for server in self.servers:
                call_member(self._config, server, "job", fields, text)
        return job.run_id

    def list(self) -> dict[str, Fields | HedgerowError]:
        """List the runs of every server, by its name."""
        return self._all("runs", {})

    def show(self, run: str) -> dict[str, Fields | HedgerowError]:
        """Return what every server tells of a run, by its name."""
        return self._all("run-show", {"run": check_name(run, "run")})

    def stop(self, run: str) -> dict[str, Fields | HedgerowError]:
        """Stop a run at all servers."""
        self._check_client()
        return self._all("run-stop", {"run": run, "generation": self._generation(run)})

    def resume(self, run: str) -> dict[str, Fields | HedgerowError]:
        """Resume a run at all servers."""
        self._check_client()
        return self._all("run-resume", {"run": run, "generation": 1 + self._generation(run)})

    def status(self, run: str) -> RunStatus:
        """Return how far a run is; H890 if no server knows it."""
        return merge_status(run, self.show(run))

    def watch(self, run: str, *, pause: float = 0.5) -> Iterator[RunStatus]:
        """Yield the status of a run whenever it has changed, until it has ended.

        Raises if no server answers for as long as a server may be missing.
        """
        clock, before, reached = _Clock(), None, time.monotonic()
        while True:
            try:
                status = clock.estimate(self.status(run))
                reached = time.monotonic()
            except HedgerowError:
                if time.monotonic() - reached > self._config.timeouts.rejoin:
                    raise
                time.sleep(pause)
                continue
            if status != before:
                yield status
            if status.has_ended:
                return
            before = status
            time.sleep(pause)

    def _generation(self, run: str) -> int:
        """Return how often a run was resumed, where that is most."""
        told = [fields for fields in self.show(run).values() if isinstance(fields, dict)]
        return max((_number(fields, "generation") for fields in told), default=0)

    def _check_client(self) -> None:
        if self._config.role == "server":
            raise Code.WRONG_ROLE.error(
                expected="an owner or an analyst",
                found=f"{self._config.name}, which is a server",
                fix="use the folder of an owner or an analyst: servers do not post jobs",
            )

    def _all(self, verb: str, fields: Fields) -> dict[str, Fields | HedgerowError]:
        replies = self._ask_all(verb, fields)
        return {name: r.fields if isinstance(r, Reply) else r for name, r in replies.items()}


def merge_status(run: str, told: dict[str, Fields | HedgerowError]) -> RunStatus:
    """Join what the servers tell of a run; raises if none of them tells anything."""
    known = {name: fields for name, fields in told.items() if isinstance(fields, dict)}
    refusals = [error for error in told.values() if isinstance(error, HedgerowError)]
    if not known:
        raise refusals[0]
    servers = {
        name: str(fields.get("state")) if isinstance(fields, dict) else "unreachable"
        for name, fields in told.items()
    }
    states = set(servers.values())
    state = next(
        (s for s in ("failed", "stopped", "running", "waiting") if s in states), "accepted"
    )
    state = "done" if states == {"done"} else state
    first = next(iter(known.values()))
    lines = [fields["progress"] for fields in known.values() if fields.get("progress")]
    waiting = [name for fields in known.values() for name in fields.get("waiting_for") or ()]
    waiting += [name for name, error in told.items() if isinstance(error, HedgerowError)]
    failed = {n: f for n, f in known.items() if f.get("state") == "failed"}
    errors = [parse_error(fields.get("error"), name) for name, fields in failed.items()]
    reasons = [fields["reason"] for fields in known.values() if fields.get("reason")]
    return RunStatus(
        run=run,
        state=state,
        attempt=max(_number(fields, "attempt") for fields in known.values()),
        level=min((_number(line, "level") for line in lines), default=-1),
        depth=_number(first, "depth"),
        nodes=max((_number(line, "nodes") for line in lines), default=-1),
        octets=sum(max(0, _number(line, "bytes")) for line in lines),
        seconds=max((_seconds(line) for line in lines), default=0.0),
        waiting_for=() if state == "done" else tuple(dict.fromkeys(waiting)),
        servers=servers,
        error=next((error for error in errors if error is not None), None),
        reason=str(reasons[0]) if reasons else None,
    )


class _Clock:
    """Estimates the time that is left from the levels that were seen to end."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[float, int]] = {}
        self._attempt = 0

    def estimate(self, status: RunStatus) -> RunStatus:
        if status.attempt != self._attempt:
            self._seen, self._attempt = {}, status.attempt
        if status.level < 0 or status.has_ended or status.nodes < 1:
            return status
        self._seen.setdefault(status.level, (time.monotonic(), status.nodes))
        first = min(self._seen)
        if status.level == first:
            return status
        (begun, few), (now, many) = self._seen[first], self._seen[status.level]
        growth = (many / few) ** (1 / (status.level - first))
        cost = [_LEVEL_COST + few * growth**k for k in range(status.depth - first)]
        done = status.level - first
        left = (now - begun) * sum(cost[done:]) / sum(cost[:done])
        passed = time.monotonic() - now
        return RunStatus(**{**vars(status), "left": round(max(0.0, left - passed), 1)})


def _number(fields: Fields, key: str) -> int:
    value = fields.get(key, -1)
    return value if type(value) is int else -1


def _seconds(fields: Fields) -> float:
    value = fields.get("seconds", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0
