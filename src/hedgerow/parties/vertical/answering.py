"""What holders of columns answer about instances: a question is a session of all of them.

The site or peer that asks draws a session and has the others meet it there (``sites-meet``). All of
them attend; what each does there is in `sides`. Each holds to the limits of its own policy: it
counts the instances that a question says it has, before it comes, and refuses one that brings more.

Reveals: to all of them who asks, and how many instances. Of a tree in pieces at sites what
`hedgerow.protocols.vertical_id3.classify` says. Of a model among peers, to all of them which
instances, and to who asks the answers, in which the exact attributes of these instances are, and
which peer lacks one of them, unless rows were joined so that nobody learned which are common
(``align = "hidden"``): another row stands in for what is lacking there. Both are charged, without a
finite epsilon, to the ledger of the run before the first question. Where the run of a model
promises an epsilon, which does not cover that, the account of the population is charged as well: a
policy that allows nothing exact refuses it.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import Doorway, RunPort
from hedgerow.parties.consortium.config import HOLDERS, PartyConfig
from hedgerow.parties.consortium.names import RequestedName
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.queries.asking import ModelAnswers
from hedgerow.parties.store.accounts import Accounts, worst
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.models import list_models
from hedgerow.parties.store.own_tables import own_table
from hedgerow.parties.store.query_log import Asked, QueryKey, charged_row
from hedgerow.parties.vertical.peer_job import PivotJob
from hedgerow.parties.vertical.sessions import HolderSessions
from hedgerow.parties.vertical.sides import (
    AnsweringSide,
    Found,
    HolderJob,
    job_of,
    read_kept,
    side_of,
)
from hedgerow.parties.wire.client import call_member
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, verb
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.protocols.hidden.answers import distribution
from hedgerow.protocols.registry import IN_PIECES, PEER_PROTOCOLS
from hedgerow.tables.ids import LONGEST

MOST_INSTANCES = 10_000
"""Of one question."""
MOST_AT_ONCE = 8
"""Questions that a site or peer takes part in at the same time."""
_LARGEST = 1 << 22
"""Bytes of the ids of a question."""
_LEAVES = (
    "the question, a line of the trail and, at the class site, the answer that it keeps: "
    "`queries_per_analyst` and `queries_per_model`, in rows. Eight questions at the same time."
)
_logger = logging.getLogger(__name__)

Count = Annotated[int, Field(ge=1, le=MOST_INSTANCES)]


class AskFields(RequestFields):
    """The model that is asked; among peers perhaps for probabilities (`proba`)."""

    model: RequestedName
    proba: bool = False


class AskedIds(RequestFields):
    """`ids`: of the instances, as people write them."""

    ids: Annotated[
        list[Annotated[str, Field(max_length=LONGEST)]],
        Field(min_length=1, max_length=MOST_INSTANCES),
    ]


class MeetSitesFields(RequestFields):
    """A question of so many `rows` to a model, by the hash of its `job`, in a session.

    Among peers perhaps for probabilities (`proba`).
    """

    model: RequestedName
    proba: bool = False
    job: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    session: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    rows: Count


class _Asked(NamedTuple):
    """A question of so many rows by a holder of columns, and this party's side in its session."""

    job: HolderJob
    session: bytes
    doorway: Doorway
    side: AnsweringSide
    asker: str
    rows: int


class HolderAnswers(HolderSessions):
    """Ask the others who hold columns of a tree, and attend when they ask."""

    kind, most, program = "question", MOST_AT_ONCE, b"hedgerow/sites asked/1"

    def __init__(
        self, config: PartyConfig, policy: Policy, port: RunPort, accounts: Accounts
    ) -> None:
        super().__init__(config, policy, port)
        self._accounts = accounts

    @verb(
        "sites-ask",
        HOLDERS,
        largest=_LARGEST,
        twice="it is another question: its rows are charged again.",
        leaves=_LEAVES,
    )
    def ask(self, caller: Caller, fields: AskFields, payload: Incoming) -> tuple[Fields, Payload]:
        """Ask those who hold columns about instances, for the operator of this party alone.

        Payload: an object with ``ids``, at most 10,000. Reply: as payload an object: ``classes``,
        in words, and by instance ``counts``, class counts of its leaf, null where the class site
        keeps them; among peers ``index``, its class by number, ``probabilities`` of all classes, or
        ``values`` of a target that is a number.
        """
        self.check_operator(caller)
        job = job_of(self.config.state, fields.model)
        told = payload.read()
        ids = AskedIds.model_validate(jsonfile.loads(told, Code.BAD_REQUEST)).ids
        side, rows = side_of(self.config, job, fields.model, proba=fields.proba), len(ids)
        self._check_cost(job)
        side.prepare(ids, job.holders.index(self.config.name), self._lock)
        session = secrets.token_bytes(16)
        with ExitStack() as stack:
            self.take_seat(stack)
            doorway = stack.enter_context(self._port.expect(session))
            self._charge(fields.model, self.config.name, session, rows, side.what)
            invited = {
                "model": fields.model,
                "proba": fields.proba,
                "job": job.hash,
                "session": session.hex(),
                "rows": rows,
            }
            self.invite(job, "sites-meet", invited, told if side.all_know_ids else None)
            found = self._attend(_Asked(job, session, doorway, side, self.config.name, rows))
        return {}, json.dumps(found).encode()

    @verb(
        "sites-meet",
        HOLDERS,
        largest=_LARGEST,
        twice="a session is met once: the second time is refused.",
        leaves=_LEAVES,
    )
    def meet(
        self, caller: Caller, fields: MeetSitesFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Come to a question of another site or peer.

        Payload: among peers an object with ``ids``, as many as there are rows; else none.
        """
        job = job_of(self.config.state, fields.model)
        self.check_holder(caller, job, fields.job)
        side = side_of(self.config, job, fields.model, proba=fields.proba)
        self._check_cost(job)
        ids = self._told(payload, fields.rows) if side.all_know_ids else None
        session = bytes.fromhex(fields.session)
        if ids is not None:
            # A refusal says that an instance is not here: it counts as an answer does.
            self._charge(fields.model, caller.name, session, fields.rows, side.what)
        try:
            side.prepare(ids, job.holders.index(caller.name), self._lock)
        except HedgerowError as error:
            # What is wrong with its files, the operator of this party reads, and nobody else.
            event = {"run": job.run_id, "outcome": error.code.number, "found": error.found}
            _logger.warning("question", extra={"event": event})
            raise error.code.error(
                expected=f"every {self.config.role} of the tree with its part, its table and the "
                "instances",
                found=f"{self.config.name} without; its log says why",
                fix=f"have {self.config.name} look into state/log.jsonl",
            ) from None
        with ExitStack() as stack:
            self.take_seat(stack)
            if ids is None:
                self._charge(fields.model, caller.name, session, fields.rows, side.what)
            doorway = self._port.expect(session)
            # The thread gives the seat back.
            stack.pop_all()
        asked = _Asked(job, session, doorway, side, caller.name, fields.rows)
        self.come(job, caller.name, lambda: self._attend_at(asked))
        return {}, None

    def _told(self, payload: Incoming, rows: int) -> list[str]:
        ids = AskedIds.model_validate(jsonfile.loads(payload.read(), Code.BAD_REQUEST)).ids
        if len(ids) != rows:
            raise Code.BAD_REQUEST.error(
                expected=f"{rows:,} ids, as the question says", found=f"{len(ids):,}"
            )
        return ids

    def _attend_at(self, asked: _Asked) -> None:
        with asked.doorway:
            self._attend(asked)

    def _attend(self, asked: _Asked) -> Found | None:
        job = asked.job
        with self.meet_holders(job, asked.session, asked.doorway) as network:
            return asked.side.attend(network, job.holders.index(asked.asker), asked.rows)

    def _check_cost(self, job: HolderJob) -> None:
        """Charge the account once for all answers of a model that its run does not cover; H858."""
        costs = job.answer_costs()
        if not costs:
            return
        self.policy.check_epsilon({who: cost.epsilon for who, cost in costs.items()})
        what = f"answers of {job.model_name}"
        self._accounts.charge(job.population, f"answers:{job.hash}", *worst(costs), what=what)

    def _charge(self, model: str, asker: str, session: bytes, rows: int, what: str) -> None:
        """Count instances, within the policy of this party; on the disk when this returns."""
        with self._lock, open_store(self.config.state).transaction("charge instances") as made:
            before = [(one["analyst"], one["n"]) for one in made.each("questions", model=model)]
            self.policy.check_rows(
                rows=rows,
                by_analyst=sum(n for name, n in before if name == asker),
                by_all=sum(n for _, n in before),
            )
            asked = Asked(QueryKey(asker, session.hex()), what, rows, "")
            made.put("questions", charged_row(model, asked))
            made.tell("question", {"model": model, "by": asker, "rows": rows, "what": what})


def is_in_pieces(config: PartyConfig, model: str) -> bool:
    """Whether this party is one of those who have pieces of a model."""
    known = {one.name: one.protocol for one in list_models(config.state)}
    return config.role in HOLDERS and known.get(model) in IN_PIECES


def id_column(config: PartyConfig, model: str) -> str:
    """Return the column of ids of the table that this party has for a model; H934."""
    return own_table(config.state, job_of(config.state, model).population).ids


def ask_holders(
    config: PartyConfig, model: str, ids: Sequence[str], *, proba: bool = False
) -> ModelAnswers | None:
    """Have this party's own daemon ask; the answers by id, or None where the class site has them.

    More than a question may have are several questions; an id that is there twice is asked once.
    H501 for probabilities where peers learn the class alone.
    """
    job = job_of(config.state, model)
    if isinstance(job, PivotJob):
        PEER_PROTOCOLS[job.protocol].asks(job.make_plan(), proba)
    seconds = config.timeouts.connect + config.timeouts.step + config.timeouts.request
    names, places = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
    every: Found = {}
    for at in range(0, len(names), MOST_INSTANCES):
        asked = json.dumps({"ids": names[at : at + MOST_INSTANCES].tolist()}).encode()
        fields = {"model": model, "proba": proba and isinstance(job, PivotJob)}
        reply = call_member(config, config.me, "sites-ask", fields, asked, seconds=seconds)
        found = jsonfile.loads(reply.payload, Code.BAD_REPLY)
        if found.get("counts", ()) is None:
            return None
        every |= {
            key: told if key == "classes" else [*every.get(key, ()), *told]
            for key, told in found.items()
        }
    return _read_answers(
        {k: v if k == "classes" else np.array(v)[places] for k, v in every.items()}, proba=proba
    )


def kept_answers(
    config: PartyConfig, model: str, *, proba: bool = False
) -> tuple[list[Any], ModelAnswers]:
    """Return the answers that this class site keeps: ids, and what was found of them."""
    ids, found = read_kept(config.state, model)
    return ids, _read_answers(found, proba=proba)


def _read_answers(found: Found, *, proba: bool) -> ModelAnswers:
    none, classes = np.empty(0, dtype=np.int64), tuple(found.get("classes", ()))
    if "values" in found:
        return ModelAnswers(none, (), values=np.asarray(found["values"], dtype=np.float64))
    if "probabilities" in found:
        chances = np.asarray(found["probabilities"], dtype=np.float64)
        return ModelAnswers(chances.argmax(axis=1), classes, chances)
    if "index" in found:
        return ModelAnswers(np.asarray(found["index"], dtype=np.int64), classes)
    counts = np.asarray(found["counts"], dtype=np.int64).reshape(-1, len(classes))
    shares = distribution(counts) if len(counts) else counts.astype(np.float64)
    return ModelAnswers(shares.argmax(axis=1), classes, shares if proba else None)
