"""`Participant`: a member of a consortium in a DP-TopDown run, from its account to the model."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import check_keys
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import replacing
from hedgerow.parties.topdown.accounted import AccountedRun
from hedgerow.parties.topdown.job import TopDownJob
from hedgerow.parties.topdown.turns import Turn, digest
from hedgerow.parties.wire.client import Lines, Reply, call
from hedgerow.parties.wire.requests import Fields
from hedgerow.trees.model import model_from_json, read_model

MAX_QUESTION_BYTES = 1 << 28
_AWAY = {
    Code.SERVICE_UNREACHABLE,
    Code.REQUEST_CUT_OFF,
    Code.SERVICE_BUSY,
    Code.SERVICE_STOPPING,
}
"""What may pass: the coordinator is not there, or is about to leave."""
_PAUSE, _LEAST = 0.5, 0.05
_MOST_NAMES, _LONGEST_NAME = 2000, 100
_LONGEST_WAIT = 20.0

Tell = Callable[[str, int, tuple[str, ...]], None]
"""Told what is being done, the round, and who is waited for.

``waiting`` for others, ``answering``, ``charged``: the account, just now; ``again``: servers did
not come together; ``dropped``: the run goes on without this party, whose model is waited for;
``away``: the coordinator is not there.
"""


class CoordinatorClient:
    """The coordinator, as a participant sees it."""

    def __init__(self, config: PartyConfig, job: TopDownJob) -> None:
        self._config, self._job = config, job
        self.member = config.coordinator
        self._certificate = config.certificate(self.member.name)
        self._lines = Lines(config.identity, self._certificate)

    def next(self) -> Turn:
        """Ask what is wanted; the coordinator takes its time if there is nothing."""
        # Well before this side would give the request up.
        wait = min(_LONGEST_WAIT, self._config.timeouts.request / 2)
        reply = self._call("topdown-next", {"wait": wait})
        fields = reply.fields
        keys = ("state", "round", "waiting_for", "dropped")
        state, number, names, dropped = (fields.get(key) for key in keys)
        if (
            state not in ("ask", "wait", "done")
            or type(number) is not int
            or not isinstance(dropped, bool)
            or not isinstance(names, list)
            or len(names) > _MOST_NAMES
            or not all(isinstance(name, str) and name.isprintable() for name in names)
            or any(len(name) > _LONGEST_NAME for name in names)
        ):
            raise self._bad("neither a question, nor a model, nor the news that there is none")
        return Turn(state, number, reply.payload, tuple(names), dropped)

    def answer(self, ask: bytes, data: bytes, *, private: bool) -> bool:
        """Bring an answer; return whether it counts."""
        fields = {"ask": digest(ask), "private": private}
        counts = self._call("topdown-answer", fields, data).fields.get("counts")
        if not isinstance(counts, bool):
            raise self._bad("no word on whether the answer counts")
        return counts

    def confirm_model(self) -> None:
        """Say that the model is on this side's disk; nothing depends on whether it is heard."""
        with suppress(HedgerowError):
            self._call("topdown-taken", {})

    def close(self) -> None:
        """End the connections."""
        self._lines.close()

    def _call(self, verb: str, fields: Fields, payload: bytes | None = None) -> Reply:
        config, to, job = self._config, self.member, self._job
        reply = call(
            (to.host, to.port),
            config.identity,
            self._certificate,
            verb,
            {"run": job.run_id, "hash": job.hash, **fields},
            payload,
            name=to.name,
            timeout=config.timeouts.request,
            connect_timeout=config.timeouts.connect,
            largest_reply=MAX_QUESTION_BYTES,
            lines=self._lines,
        )
        if reply.fields.get("hash") != job.hash:
            raise Code.JOBS_DIFFER.error(
                expected=f"the job of hash {job.hash}",
                found=f"another one at {to.name}",
                fix="compare the two job files line by line, with their domains: all parties "
                "need the same",
            )
        return reply

    def _bad(self, found: str) -> HedgerowError:
        return Code.BAD_REPLY.error(expected=f"a reply of {self.member.name}", found=found)


def _explain_absence(error: HedgerowError) -> HedgerowError:
    """Say what has to be started, if there is nobody at the coordinator's address."""
    if error.code is not Code.SERVICE_UNREACHABLE:
        return error
    made = error.code.error(
        expected=error.expected,
        found=error.found,
        fix="have the coordinator run `hedgerow topdown coordinate` with the same job; check its "
        "address in party.toml, and the firewalls between",
    )
    made.party = error.party
    return made


def take_part(
    coordinator: CoordinatorClient,
    answer: Callable[[bytes], bytes | None],
    *,
    private: bool = True,
    patience: float,
    tell: Tell = lambda what, number, names: None,
) -> bytes:
    """Answer the coordinator until the tree is grown; return the model, as the coordinator says.

    `answer` first keeps what must not be forgotten, and gives the same answer to the same question;
    None lets the coordinator ask again. H882 or H883 if that is away for `patience` seconds.
    """
    seen = time.monotonic()

    def ask(what: Callable[[], Any]) -> Any:
        """Return what the coordinator says; None if it is not there just now."""
        nonlocal seen
        try:
            said = what()
        except HedgerowError as error:
            if error.code not in _AWAY:
                raise
            if time.monotonic() - seen > patience:
                raise _explain_absence(error) from None
            tell("away", 0, (coordinator.member.name,))
            time.sleep(_PAUSE)
            return None
        seen = time.monotonic()
        return said

    while True:
        begun = time.monotonic()
        turn: Turn | None = ask(coordinator.next)
        if turn is None:
            continue
        if turn.state == "done":
            return turn.payload
        if turn.state == "wait":
            tell("dropped" if turn.dropped else "waiting", turn.round, turn.waiting_for)
            # A coordinator that says so at once is not asked again at once.
            time.sleep(max(0.0, _LEAST - (time.monotonic() - begun)))
            continue
        tell("answering", turn.round, ())
        question = turn.payload
        data = answer(question)
        if data is None:
            tell("again", turn.round, turn.waiting_for)
            time.sleep(_PAUSE)
            continue
        # Should it not come through, the question comes again.
        ask(partial(coordinator.answer, question, data, private=private))


class Participant(AccountedRun):
    """A party in a run; use `take_part`. H850 for roles that do not fit, H858 if refused."""

    def __init__(
        self, config: PartyConfig, policy: Policy, job: TopDownJob, *, private: bool
    ) -> None:
        self.config = config
        job.check_members(config)
        check_keys(config)
        super().__init__(config.name, config.state, policy, job, private=private)

    @abstractmethod
    def _after_model(self) -> None:
        """Forget what is not needed any more, once the model is here."""

    @property
    def model(self) -> Path:
        """Where the model is, or will be."""
        return self.folder / "model.json"

    def take_part(self, tell: Tell = lambda what, number, names: None) -> Path:
        """Answer the coordinator to the end; return where the model is.

        That the model fits the job is checked; that it follows from all answers cannot be.
        """
        path = self.model
        if path.exists():
            # It was replaced as a whole, so it is all there.
            read_model(path)
            return path
        coordinator = CoordinatorClient(self.config, self.job)

        def answer(ask: bytes) -> bytes | None:
            # `CoordinatorClient` has compared the hash of the job: who asks means this one.
            before = self._charged
            self.charge()
            if not before:
                tell("charged", 0, ())
            return self.answer(ask)

        try:
            data = take_part(
                coordinator,
                answer,
                private=self.private,
                patience=self.job.timeouts.join,
                tell=tell,
            )
            if model_from_json(data).model.domain != self.job.domain:
                raise Code.BAD_REPLY.error(
                    expected=f"a tree under the domain of the job, of {coordinator.member.name}",
                    found="one under another domain",
                )
            with replacing(path) as file:
                file.write(data)
            self._after_model()
            coordinator.confirm_model()
        finally:
            coordinator.close()
        return path
