"""What sites answer about instances: a question is a session of all sites of a tree.

The site that asks draws a session and has the others meet it there (``sites-meet``). All of them
attend (`hedgerow.protocols.vertical_id3.programs.classify`); those on no path of an instance do
nothing. Every site holds to the limits of its own policy: it counts the instances that a question
says it has, before it comes, and refuses one that brings more.

Reveals: what `hedgerow.protocols.vertical_id3.classify` says, and to every site who asks, and how
many instances. What questions show is charged, without a finite epsilon, to the ledger of the run
before a site comes to the first of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.port import Doorway, RunPort
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.names import RequestedName
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.runs.store import job_of_run
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.ledgers import DurableLedger
from hedgerow.parties.store.models import list_models, open_model, read_manifest
from hedgerow.parties.store.own_tables import own_table
from hedgerow.parties.store.query_log import Asked, QueryKey, charged_row
from hedgerow.parties.vertical.columns import parsed_ids
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.parties.vertical.part import own_columns
from hedgerow.parties.wire.client import call_member, call_members
from hedgerow.parties.wire.handlers import Caller, Incoming, RequestFields, verb
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.protocols.contract import Context
from hedgerow.protocols.registry import VERTICAL
from hedgerow.protocols.vertical_id3.programs import AnsweringPart, Question, classify
from hedgerow.protocols.vertical_id3.site import Site

MOST_INSTANCES = 10_000
"""Of one question."""
MOST_ID = 200
"""Characters of an id."""
MOST_AT_ONCE = 8
"""Questions that a site takes part in at the same time."""
_PROGRAM = b"hedgerow/sites asked/1"
_LEAVES = (
    "the question, a line of the trail and, at the class site, the answer that it keeps: "
    "`queries_per_analyst` and `queries_per_model`, in rows. Eight questions at the same time."
)
_logger = logging.getLogger(__name__)

Count = Annotated[int, Field(ge=1, le=MOST_INSTANCES)]


class AskFields(RequestFields):
    """The tree that is asked."""

    model: RequestedName


class AskedIds(RequestFields):
    """`ids`: of the instances, as people write them."""

    ids: Annotated[
        list[Annotated[str, Field(max_length=MOST_ID)]],
        Field(min_length=1, max_length=MOST_INSTANCES),
    ]


class MeetSitesFields(RequestFields):
    """A question of so many `rows` to a model, by the hash of its `job`, in a session."""

    model: RequestedName
    job: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    session: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    rows: Count


class _Asked(NamedTuple):
    """A question of so many rows by a site, and this site's part in its session."""

    job: VerticalJob
    session: bytes
    doorway: Doorway
    part: AnsweringPart
    asker: str
    rows: int


class SiteAnswers:
    """Ask the other sites of a tree, and attend when they ask."""

    def __init__(self, config: PartyConfig, policy: Policy, port: RunPort) -> None:
        self.config, self.policy, self._port = config, policy, port
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)

    @verb(
        "sites-ask",
        ("site",),
        largest=1 << 22,
        twice="it is another question: its rows are charged again.",
        leaves=_LEAVES,
    )
    def ask(self, caller: Caller, fields: AskFields, payload: Incoming) -> tuple[Fields, Payload]:
        """Ask the sites about instances, for the operator of this site alone.

        Payload: an object with ``ids``, at most 10,000. Reply: as payload an object: ``counts``,
        by instance, class counts of its leaf; null where the class site keeps them; and
        ``classes``, in words.
        """
        if caller.name != self.config.name:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"{self.config.name} itself: every site asks for itself",
                found=caller.name,
                fix="ask in the folder of your own site",
            )
        job = _job_of(self.config.state, fields.model)
        ids = AskedIds.model_validate(jsonfile.loads(payload.read(), Code.BAD_REQUEST)).ids
        rows = len(ids)
        part = self._part(fields.model, job)
        asked = parsed_ids(ids, part.ids)
        part = AnsweringPart(part.site, part.ids, part.bins, asked)
        session = secrets.token_bytes(16)
        with ExitStack() as stack:
            self._take_seat(stack)
            doorway = stack.enter_context(self._port.expect(session))
            self._charge(fields.model, self.config.name, session, rows)
            self._invite(fields.model, job, session, rows)
            found = self._attend(_Asked(job, session, doorway, part, self.config.name, rows))
        told = None if found is None else found.tolist()
        labels = [job.label(i) for i in range(job.n_classes)]
        return {}, json.dumps({"counts": told, "classes": labels}).encode()

    @verb(
        "sites-meet",
        ("site",),
        twice="a session is met once: the second time is refused.",
        leaves=_LEAVES,
    )
    def meet(
        self, caller: Caller, fields: MeetSitesFields, payload: Incoming
    ) -> tuple[Fields, Payload]:
        """Come to a question of another site."""
        del payload
        job = _job_of(self.config.state, fields.model)
        if caller.name not in job.sites or job.hash != fields.job:
            raise Code.CALLER_NOT_ALLOWED.error(
                expected=f"a site of {job.run_id}, with the same job", found=caller.name
            )
        try:
            part = self._part(fields.model, job)
        except HedgerowError as error:
            # What is wrong with its files, the operator of this site reads, and nobody else.
            event = {"run": job.run_id, "outcome": error.code.number, "found": error.found}
            _logger.warning("question", extra={"event": event})
            raise error.code.error(
                expected="every site of the tree with its nodes and its table",
                found=f"{self.config.name} without; its log says why",
                fix=f"have {self.config.name} look into state/log.jsonl",
            ) from None
        session = bytes.fromhex(fields.session)
        with ExitStack() as stack:
            self._take_seat(stack)
            self._charge(fields.model, caller.name, session, fields.rows)
            doorway = self._port.expect(session)
            # The thread gives the seat back.
            stack.pop_all()
        asked = _Asked(job, session, doorway, part, caller.name, fields.rows)
        threading.Thread(target=self._come, args=(asked,), name="question", daemon=True).start()
        return {}, None

    def _come(self, asked: _Asked) -> None:
        event = {"run": asked.job.run_id, "by": asked.asker}
        try:
            with asked.doorway:
                self._attend(asked)
        except HedgerowError as error:
            event |= {"outcome": error.code.number, "found": error.found}
            _logger.warning("question", extra={"event": event})
        except Exception:
            _logger.exception("question", extra={"event": {**event, "outcome": "failure"}})
        finally:
            self._free.release()

    def _attend(self, asked: _Asked) -> NDArray[np.int64] | None:
        config, job, part = self.config, asked.job, asked.part
        with TLSNetwork(
            job.sites.index(config.name),
            config.endpoints(job.sites),
            config.identity,
            session=asked.session,
            program=hashlib.sha256(_PROGRAM + job.hash.encode()).digest(),
            timeout=config.timeouts.step,
            meeting_timeout=config.timeouts.connect,
            listener=asked.doorway,
        ) as network:
            question = Question(job.sites.index(asked.asker), asked.rows)
            try:
                return classify(Context(network, job.sites, job.make_plan(), question, part))
            finally:
                keep_answers(config.state, job.run_id, part.site)

    def _part(self, model: str, job: VerticalJob) -> AnsweringPart:
        """Return this site with its nodes and its instances, what questions show being charged."""
        config = self.config
        table, own = own_columns(config, job)
        tree = open_model(config.state, None, model).tree
        assert tree is not None
        stored = StoredNodes.from_dict(tree, job, config.name, own)
        ids, bins = own.instances(table.path, table.ids)
        site = Site(job.sites.index(config.name), job.protocol_job(), own.no_rows())
        with self._lock:
            # What is charged again under the same reason is recognised.
            site.ledger = DurableLedger(open_store(config.state), job.run_id)
            site.take_up(stored.nodes, stored.root)
        return AnsweringPart(site, ids, bins)

    def _charge(self, model: str, asker: str, session: bytes, rows: int) -> None:
        """Count instances, within the policy of this site; on the disk when this returns."""
        with self._lock, open_store(self.config.state).transaction("charge instances") as made:
            before = [(one["analyst"], one["n"]) for one in made.each("questions", model=model)]
            self.policy.check_rows(
                rows=rows,
                by_analyst=sum(n for name, n in before if name == asker),
                by_all=sum(n for _, n in before),
            )
            asked = Asked(QueryKey(asker, session.hex()), "class", rows, "")
            made.put("questions", charged_row(model, asked))
            made.tell("question", {"model": model, "by": asker, "rows": rows})

    def _invite(self, model: str, job: VerticalJob, session: bytes, rows: int) -> None:
        others = [self.config.member(name) for name in job.sites if name != self.config.name]
        fields = {"model": model, "job": job.hash, "session": session.hex(), "rows": rows}
        for reply in call_members(self.config, others, "sites-meet", fields).values():
            if isinstance(reply, HedgerowError):
                raise reply

    def _take_seat(self, stack: ExitStack) -> None:
        """Take part in one more question until the stack ends; H879 if there are too many."""
        if not self._free.acquire(blocking=False):
            raise Code.SERVICE_BUSY.error(
                expected=f"at most {MOST_AT_ONCE} questions at the same time", found="one more"
            )
        stack.callback(self._free.release)


def _job_of(state: StateFolder, model: str) -> VerticalJob:
    """Return the job of a tree in pieces; H407 if it is not here, H501 for another protocol."""
    manifest = read_manifest(state, model)
    if manifest.protocol != VERTICAL:
        raise Code.BAD_PARAMETER.error(
            expected=f"a model of protocol {VERTICAL!r}",
            found=f"one of protocol {manifest.protocol!r}",
        )
    job = job_of_run(state, manifest.run)
    assert isinstance(job, VerticalJob)
    return job


def keep_answers(state: StateFolder, run: str, site: Site) -> None:
    """Write down what the class site keeps to itself."""
    if not site.kept:
        return
    kept, site.kept = site.kept, []
    rows = [
        json.dumps({"id": readable_id(name), "counts": list(counts)})
        for instances, counts in kept
        for name in instances
    ]
    with open_store(state).transaction("keep answers") as made:
        for number, row in enumerate(rows, len(made.rows("kept_answers", run=run))):
            made.add("kept_answers", {"run": run, "number": number, "answer": row})


def read_kept(state: StateFolder, model: str) -> tuple[list[Any], NDArray[np.int64], list[str]]:
    """Return the answers that were kept, in order: ids, class counts (n, k), and the classes."""
    job = _job_of(state, model)
    with open_store(state).snapshot() as made:
        found = made.rows("kept_answers", run=job.run_id)
    rows = [jsonfile.loads(row["answer"], Code.JOURNAL_DAMAGED) for row in found]
    classes = [job.label(i) for i in range(job.n_classes)]
    counts = np.array([row["counts"] for row in rows], dtype=np.int64).reshape(-1, len(classes))
    return [row["id"] for row in rows], counts, classes


def is_in_pieces(config: PartyConfig, model: str) -> bool:
    """Whether this party is a site that has pieces of a model."""
    known = {one.name: one.protocol for one in list_models(config.state)}
    return config.role == "site" and known.get(model) == VERTICAL


def id_column(config: PartyConfig, model: str) -> str:
    """Return the column of ids of the table that this site has for a model; H934."""
    return own_table(config.state, _job_of(config.state, model).population).ids


def readable_id(name: bytes) -> int | str:
    """Return the id that `id_bytes` has written."""
    if name[:1] == b"i":
        return int.from_bytes(name[1:], "little", signed=True)
    return name[1:].decode("utf-8", "replace")


def ask_sites(
    config: PartyConfig, model: str, ids: Sequence[str]
) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Have this site's own daemon ask; class counts (n, k) by id, or None, and the classes.

    More than a question may have are several questions; an id that is there twice is asked once.
    """
    seconds = config.timeouts.connect + config.timeouts.step + config.timeouts.request
    names, places = np.unique(np.asarray(ids, dtype=np.str_), return_inverse=True)
    counts, classes = [], []
    for at in range(0, len(names), MOST_INSTANCES):
        asked = json.dumps({"ids": names[at : at + MOST_INSTANCES].tolist()}).encode()
        fields = {"model": model}
        reply = call_member(config, config.me, "sites-ask", fields, asked, seconds=seconds)
        found = jsonfile.loads(reply.payload, Code.BAD_REPLY)
        counts.append(found["counts"])
        classes = found["classes"]
    if not counts or counts[0] is None:
        return None, classes
    return np.concatenate(counts).astype(np.int64)[places], classes
