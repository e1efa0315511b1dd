"""What a party answers about runs: to those who post jobs, and to those who take part."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import HOLDERS
from hedgerow.parties.consortium.names import RequestedName
from hedgerow.parties.consortium.posting import check_resumption, check_signature
from hedgerow.parties.consortium.reach import POSTERS
from hedgerow.parties.runs.job_files import MAX_JOB_BYTES
from hedgerow.parties.runs.jobs import read_job
from hedgerow.parties.runs.manager import RunManager
from hedgerow.parties.store.peer_trails import TrailClaim
from hedgerow.parties.wire.handlers import (
    Caller,
    Incoming,
    RequestFields,
    verb,
)
from hedgerow.parties.wire.requests import Fields, Payload

PARTIES = ("server", "coordinator", "owner", *HOLDERS)
ALL = (*POSTERS, "server")
_MOST_LISTED = 200
_READS = "nothing changes."

Answer = tuple[Fields, None]
Number = Annotated[int, Field(ge=0, lt=1 << 31)]
Hash = Annotated[str, Field(max_length=200)]
Signature = Annotated[str, Field(pattern=r"^([0-9a-f]{2}){0,128}$")]
Session = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class JobFields(RequestFields):
    """`check`: only ask whether the job would be taken.

    `by`: who posts it, where the leader of the run passes it on; `signature` is the poster's.
    """

    check: bool = False
    by: RequestedName | None = None
    signature: Signature = ""


class RunFields(RequestFields):
    """A run, by its identifier."""

    run: RequestedName


class GenerationFields(RunFields):
    """A run, and how often it was resumed: before a stop, or with this resumption."""

    generation: Number


class ResumeFields(GenerationFields):
    """`by`: who resumes the run, where its leader passes it on; `signature` is that member's."""

    by: RequestedName | None = None
    signature: Signature = ""


class CopyFields(RunFields):
    """A run, the hash of the caller's copy of its job, and what it says of its trail."""

    hash: Hash
    trail: TrailClaim


class GoFields(CopyFields):
    """An attempt at a run, and the session of its workers."""

    attempt: Number
    session: Session
    members: Annotated[list[RequestedName], Field(max_length=2000)]


class RunVerbs:
    """Requests about runs; see `RunManager`."""

    def __init__(self, manager: RunManager) -> None:
        self.manager = manager

    @verb(
        "job",
        ALL,
        largest=MAX_JOB_BYTES,
        twice="the hash of the job names its run, which is there once.",
        leaves="the job, its run, its model or halves of its table, and lines of the trail: "
        "`state_bytes_per_member`, and `runs_per_poster` of those that are not done. A refusal is "
        "told in the trail: `runs_per_poster` of one member.",
    )
    def job(self, caller: Caller, fields: JobFields, payload: Incoming) -> Answer:
        """Post a job, or ask whether it would be taken.

        Payload: the job as TOML. Reply: as of ``run-show``; of a check, ``run`` and ``hash``.
        """
        try:
            text = payload.read().decode("utf-8")
        except UnicodeDecodeError:
            raise Code.BAD_JOB.error(found="a text that is not UTF-8") from None
        signature = bytes.fromhex(fields.signature)
        by = caller.name if fields.by is None else fields.by
        if caller.role == "server" or by != caller.name:
            check_signature(self.manager.config, read_job(text).hash, by, signature)
        told = self.manager.accept(text, by, signature, check=fields.check)
        return told if fields.check else self.manager.shown_to(caller.name, told), None

    @verb("runs", ALL, twice=_READS)
    def runs(self) -> Answer:
        """List the last 200 runs.

        Reply: ``party``, its name, and ``runs``.
        """
        runs = [run.to_fields() for run in self.manager.store.all()][-_MOST_LISTED:]
        for run in runs:
            # Errors are long, and many of them do not fit into one answer.
            run["error"] = None if run["error"] is None else run["error"]["code"]
        return {"party": self.manager.config.name, "runs": runs}, None

    @verb("run-show", ALL, twice=_READS)
    def show(self, caller: Caller, fields: RunFields) -> Answer:
        """Tell all that may be told of a run.

        Reply: ``run``, ``state``, ``attempt``, ``generation``, ``waiting_for``, ``progress`` and
        more. Of sites and peers others hear no progress, and of an error its code alone.
        """
        return self.manager.shown_to(caller.name, self.manager.show(fields.run)), None

    @verb("run-job", ALL, twice=_READS)
    def job_text(self, caller: Caller, fields: RunFields) -> tuple[Fields, Payload]:
        """Give the text of the job of a run to those whom it concerns.

        They have posted it, take part, may ask what it makes, or own the rows. Reply: as payload
        the job as TOML. H871 for anybody else.
        """
        return {}, self.manager.job_for(fields.run, caller.name).to_toml().encode()

    @verb(
        "run-stop",
        POSTERS,
        twice="a run that is stopped stays so; one that was resumed since is left alone.",
        leaves="a line of the trail for a run that was open, which counted when it was posted or "
        "resumed.",
    )
    def stop(self, caller: Caller, fields: GenerationFields) -> Answer:
        """Stop a run, for who has posted it and for owners of the rows.

        Reply: as of ``run-show``.
        """
        told = self.manager.end(fields.run, caller.name, fields.generation)
        return self.manager.shown_to(caller.name, told), None

    @verb(
        "run-resume",
        ALL,
        twice="a run that was resumed so often is left alone, also if it was stopped since.",
        leaves="lines of the trail, and what an attempt keeps: `state_bytes_per_member`.",
    )
    def resume(self, caller: Caller, fields: ResumeFields) -> Answer:
        """Resume a run that has failed or was stopped, for those who may stop it.

        The leader of the run passes it on to who has not heard of it; H935 unless it is signed.
        Reply: as of ``run-show``.
        """
        manager, signature = self.manager, bytes.fromhex(fields.signature)
        by = caller.name if fields.by is None else fields.by
        if signature or caller.role == "server" or by != caller.name:
            # What is kept is passed on.
            check_resumption(manager.config, fields.run, fields.generation, by, signature)
        told = manager.resume(fields.run, by, fields.generation, signature)
        return manager.shown_to(caller.name, told), None

    @verb("run-ready", PARTIES, twice=_READS)
    def ready(self, caller: Caller, fields: CopyFields) -> Answer:
        """Tell another party of a run how far this one is.

        Reply: as of ``run-show``, and ``busy``, the run of its worker, ``met`` and ``trail``. H936
        if the caller has shown another trail before, or has seen more of this one than there is.
        """
        # A state that was set back may not know the run, and that would be all to be heard of it.
        self.manager.store.trails.check_own(self.manager.config.name, fields.trail)
        found = self.manager.ready(fields.run, fields.hash)
        if caller.name not in found["members"]:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"one who takes part in {fields.run}", found=caller.name
            )
        trail = self.manager.store.trails.meet(caller.name, fields.trail)
        return {**found, "trail": trail.model_dump()}, None

    @verb(
        "run-go",
        PARTIES,
        twice="an attempt begins once: one that is not later than the last is refused (H893).",
        leaves="lines of the trail and of the log of the run: `state_bytes_per_member`. Stages of "
        "the run go when it is closed, and what is kept of an upload when that is withdrawn.",
    )
    def go(self, caller: Caller, fields: GoFields) -> Answer:
        """Begin an attempt, because the leader of the run says so.

        Reply: ``trail``, with what the attempt has cost. H936 if the caller does not show the hash
        at the height that is remembered of it.
        """
        # What is refused for every caller comes first.
        self.manager.store.get(fields.run)
        trails = self.manager.store.trails
        trails.check(caller.name, fields.trail)
        session = bytes.fromhex(fields.session)
        self.manager.go(
            fields.run, fields.hash, fields.attempt, session, fields.members, caller.name
        )
        return {"trail": trails.reply(caller.name, fields.trail).model_dump()}, None
