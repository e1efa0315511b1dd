"""Runs as owners and analysts see them: post a job, look at a run, stop and resume it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import Member
from hedgerow.parties.consortium.names import check_name, complete
from hedgerow.parties.consortium.posting import sign_job, sign_resumption
from hedgerow.parties.runs.reports import RunLine, RunList, RunReport
from hedgerow.parties.wire.client import MembersClient, Reply, call_member
from hedgerow.parties.wire.replies import read_each
from hedgerow.parties.wire.requests import Fields, parse_error

if TYPE_CHECKING:
    # A job brings all protocols with it, and who looks at runs needs none.
    from hedgerow.parties.runs.job_files import Job

_LEVEL_COST = 8
"""Of a level besides its nodes, in nodes: for the expected time alone."""


@dataclass(frozen=True)
class RunStatus:
    """A run at all members together: ``done`` at all, ``failed`` or ``stopped`` at one.

    `level`, `nodes` are of the level under way, -1 where nobody has said; `octets` and `seconds` of
    this attempt; `left` are expected seconds to the end of the last level; `parties` says
    ``unreachable`` of one that does not answer. `since` is when it was posted, in seconds of the
    epoch; `without` are those whom it has gone on without.
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
    parties: dict[str, str] = field(default_factory=dict)
    error: HedgerowError | None = None
    reason: str | None = None
    without: tuple[str, ...] = ()
    protocol: str = ""
    model: str = ""
    by: str = ""
    since: float = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.state in ("done", "failed", "stopped")

    def describe(self) -> str:
        """Say in a few words how far it is."""
        if self.waiting_for:
            return f"waiting for {', '.join(self.waiting_for)}"
        if self.state != "running" or self.level < 0:
            return self.state
        if self.level >= self.depth:
            return "leaves"
        return f"level {self.level + 1} of {self.depth}, {self.nodes:,} nodes"

    def traffic(self) -> str:
        """Say what it has sent, how long it may still take, and how often it was begun."""
        parts = [f"{self.octets / 1e6:,.1f} MB"] if self.octets else []
        if self.left is not None:
            parts.append(f"about {self.left:,.0f} s left")
        if self.attempt > 1:
            parts.append(f"attempt {self.attempt}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {key: value for key, value in vars(self).items() if key not in ("error", "octets")}
        plain |= {"bytes": self.octets, "error": None}
        if self.error is not None:
            plain |= {
                "error": self.error.code.number,
                "expected": self.error.expected,
                "found": self.error.found,
                "fix": self.error.fix,
            }
        return plain


class RunClient(MembersClient):
    """All members that take calls, to be asked about runs."""

    def check(self, job: Job) -> tuple[str, ...]:
        """Ask all who take part and take calls whether they would take a job of this member.

        What this member lacks for it itself comes first. Returns who was asked; the others get the
        job from the leader of its run, and refuse it before they charge it.
        """
        from hedgerow.parties.runs.parts import part_of

        self._check_client()
        if self._config.me in job.seats(self._config):
            part_of(self._config, job).check()
        return self._send(job, check=True)

    def post(self, job: Job) -> str:
        """Post a job to all who take part and take calls, or to none if one of them refuses it.

        The others get it from the leader of the run. Returns the run.
        """
        self.check(job)
        self._send(job, check=False)
        return job.run_id

    def find(self, run: str) -> str:
        """Return the run whose identifier begins so; H501 if several do.

        One that nobody lists is returned as it is: whoever is asked says what is wrong with it.
        """
        listed = [lines for lines in self.list().values() if isinstance(lines, tuple)]
        return complete(run, [line.run for lines in listed for line in lines], "run")

    def _send(self, job: Job, *, check: bool) -> tuple[str, ...]:
        config, text = self._config, job.to_toml().encode()
        fields = {"check": check, "signature": sign_job(config, job.hash).hex()}
        # Whoever takes part in what it posts is told like the others.
        asked = [member for member in job.seats(config) if member.takes_calls]
        for member in asked:
            call_member(config, member, "job", fields, text)
        return tuple(member.name for member in asked)

    def list(self) -> dict[str, tuple[RunLine, ...] | HedgerowError]:
        """List the runs of every member that takes calls, by its name."""
        return read_each(self._ask_all("runs", {}), _run_lines)

    def show(self, run: str) -> dict[str, RunReport | HedgerowError]:
        """Return what every member tells of a run, by its name; who takes no part is left out."""
        told = self._all("run-show", {"run": check_name(run, "run")})
        names = {name for report in _reports(told).values() for name in report.members}
        return {name: said for name, said in told.items() if not names or name in names}

    def stop(self, run: str) -> dict[str, RunReport | HedgerowError]:
        """Stop a run at all who take part."""
        return self._change("run-stop", run, 0)

    def prepare(self, run: str) -> Fields:
        """Have the peers of a run make ahead what it uses up; what that took at this one."""
        config = self._config
        seconds = config.timeouts.rejoin + config.timeouts.request
        return call_member(config, config.me, "peers-prepare", {"run": run}, seconds=seconds).fields

    def resume(self, run: str) -> dict[str, RunReport | HedgerowError]:
        """Resume a run at all who take part."""
        return self._change("run-resume", run, 1)

    def _change(self, verb: str, run: str, later: int) -> dict[str, RunReport | HedgerowError]:
        self._check_client()
        told = self.show(run)
        known = _reports(told).values()
        generation = max((report.generation for report in known), default=0)
        members = [member for member in self.members if member.name in told]
        me = self._config.me
        takes_part = any(me.name in report.members for report in known)
        if me.takes_calls and takes_part and me not in members:
            # Whoever takes part in what it stops is told like the others.
            members.append(me)
        fields: Fields = {"run": run, "generation": generation + later}
        if later:
            # Who does not hear it from this member hears it from the leader of the run.
            fields["signature"] = sign_resumption(self._config, run, generation + later).hex()
        return self._all(verb, fields, members)

    def job(self, run: str) -> Job:
        """Return the job of a run that concerns this member, of which all say the same hash.

        H890 if nobody knows the run, H871 if it does not concern this member, H884 for another job.
        """
        told = self.show(run)
        hashes = {report.hash for report in _reports(told).values()}
        replies = read_each(self._ask_all("run-job", {"run": run}), partial(_job, run))
        refusals = [one for one in replies.values() if isinstance(one, HedgerowError)]
        given = [job for job in replies.values() if not isinstance(job, HedgerowError)]
        if not given:
            away = [one for one in refusals if one.code is Code.UNKNOWN_RUN]
            raise next((one for one in refusals if one not in away), refusals[0])
        if hashes != {given[0].hash}:
            raise Code.BAD_REPLY.error(expected=f"the job of {run}", found="another one")
        return given[0]

    def status(self, run: str) -> RunStatus:
        """Return how far a run is; H890 if nobody knows it."""
        return merge_status(run, self.show(run))

    def watch(self, run: str, *, pause: float = 0.5) -> Iterator[RunStatus]:
        """Yield the status of a run whenever it has changed, until it has ended.

        Raises if nobody answers for as long as somebody may be missing.
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

    def _check_client(self) -> None:
        if self._config.role == "server":
            raise Code.WRONG_ROLE.error(
                expected="an owner, an analyst, a coordinator, a site or a peer",
                found=f"{self._config.name}, which is a server",
                fix="use the folder of another member: servers do not post jobs",
            )

    def _all(
        self, verb: str, fields: Fields, members: Sequence[Member] | None = None
    ) -> dict[str, RunReport | HedgerowError]:
        about = partial(_run_report, fields["run"])
        return read_each(self._ask_all(verb, fields, members), about)


def _run_lines(reply: Reply) -> tuple[RunLine, ...]:
    return RunList.model_validate(reply.fields).runs


def _run_report(run: str, reply: Reply) -> RunReport:
    report = RunReport.model_validate(reply.fields)
    if report.run != run:
        raise Code.BAD_REPLY.error(found=f"a report of {report.run}, not of {run}")
    return report


def _job(run: str, reply: Reply) -> Job:
    from hedgerow.parties.runs.jobs import read_job

    with jsonfile.refusing(Code.BAD_REPLY):
        job = read_job(reply.payload.decode())
    if job.run_id != run:
        raise Code.BAD_REPLY.error(found=f"the job of {job.run_id}, not of {run}")
    return job


def _reports(told: Mapping[str, RunReport | HedgerowError]) -> dict[str, RunReport]:
    return {name: one for name, one in told.items() if isinstance(one, RunReport)}


def merge_status(run: str, told: Mapping[str, RunReport | HedgerowError]) -> RunStatus:
    """Join what members tell of a run; raises if none of them tells anything."""
    known = _reports(told)
    refusals = [error for error in told.values() if isinstance(error, HedgerowError)]
    if not known:
        raise refusals[0]
    parties = {name: known[name].state if name in known else "unreachable" for name in told}
    states = set(parties.values())
    state = next(
        (s for s in ("failed", "stopped", "running", "waiting") if s in states), "accepted"
    )
    state = "done" if states == {"done"} else state
    first = next(iter(known.values()))
    reports = known.values()
    lines = [report.progress for report in reports if report.progress.event]
    waiting = [name for report in reports for name in report.waiting_for]
    waiting += [name for name in told if name not in known]
    errors = [
        parse_error(report.error, name)
        for name, report in known.items()
        if report.state == "failed"
    ]
    without = [name for report in reports for name in report.without]
    reasons = [report.reason for report in reports if report.reason]
    return RunStatus(
        run=run,
        state=state,
        protocol=first.protocol,
        model=first.model,
        by=first.by,
        since=first.created,
        attempt=max(report.attempt for report in reports),
        level=min((line.level for line in lines), default=-1),
        depth=first.depth,
        nodes=max((line.nodes for line in lines), default=-1),
        octets=sum(line.bytes or 0 for line in lines),
        seconds=max((line.seconds for line in lines), default=0.0),
        waiting_for=() if state == "done" else tuple(dict.fromkeys(waiting)),
        parties=parties,
        error=next((error for error in errors if error is not None), None),
        reason=next(iter(reasons), None),
        without=tuple(dict.fromkeys(without)),
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
        if status.level == first or status.depth <= first:
            return status
        (begun, few), (now, many) = self._seen[first], self._seen[status.level]
        growth = (many / few) ** (1 / (status.level - first))
        try:
            cost = [_LEVEL_COST + few * growth**k for k in range(status.depth - first)]
        except OverflowError:
            # Nothing grows so; somebody says so all the same.
            return status
        done = status.level - first
        left = (now - begun) * sum(cost[done:]) / sum(cost[:done])
        passed = time.monotonic() - now
        return RunStatus(**{**vars(status), "left": round(max(0.0, left - passed), 1)})
