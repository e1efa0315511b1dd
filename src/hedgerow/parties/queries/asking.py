"""`Analyst`: ask a hidden model, from outside the servers.

The rows are encoded under the model's public domain, their bits are dealt to the three servers, and
the answer comes in two halves of which neither says anything. A request that is cut off is made
again under its identifier: it is charged once, and its answer is drawn once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.queries.inquiry import (
    LARGEST_PART,
    MOST_ROWS,
    Inquiry,
    part_bytes,
    write_part,
)
from hedgerow.parties.store.models import ModelManifest
from hedgerow.parties.wire.client import Lines, MembersClient, Reply, ask, wait_for
from hedgerow.parties.wire.requests import Fields, Payload
from hedgerow.protocols.hidden.questions import join_answers
from hedgerow.protocols.hidden.server_plan import ServerPlan
from hedgerow.protocols.registry import (
    IN_PIECES,
    PEER_PROTOCOLS,
    SERVER_PROTOCOLS,
    TOPDOWN,
    askers,
    hidden_protocol,
    server_protocol,
)
from hedgerow.protocols.sharing.queries import deal_queries
from hedgerow.secure.replicated.outside import HALVES
from hedgerow.tables import Encoded, encode
from hedgerow.trees.table_answers import share_columns
from hedgerow.trees.tree import Tree


@dataclass(frozen=True)
class KnownModel:
    """What an analyst knows about a model, which is the same at all servers.

    `left`: rows that this analyst may still ask, when the servers were asked. `document`: what they
    have published, of a model that is not hidden. `plan`: none of a model in pieces, whose plan is
    for those who have them.
    """

    manifest: ModelManifest
    plan: Any = field(repr=False)
    left: int
    document: dict[str, Any] | None = field(default=None, repr=False)

    @cached_property
    def tree(self) -> Tree | None:
        """The published tree, if it is one; H401 for what says so and is none."""
        document = self.document
        if document is not None and self.manifest.protocol == TOPDOWN:
            return Tree.from_json(json.dumps(document))
        if document is None or self.manifest.protocol in IN_PIECES:
            return None
        return server_protocol(self.manifest.protocol).tree(document)

    @property
    def for_analysts(self) -> Self:
        """Return this; H501 for a model that only those who hold the columns may ask."""
        if self.manifest.protocol in IN_PIECES:
            raise Code.BAD_PARAMETER.error(
                expected="a model that servers answer for, or one that is published to everybody",
                found=f"{self.manifest.name}, which {askers(self.manifest.protocol, ())}",
                fix=f"ask it where columns are: hedgerow query {self.manifest.name} --id ID",
            )
        return self

    @classmethod
    def parse(cls, name: str, replies: Sequence[Reply]) -> KnownModel:
        """Read what the servers say about a model, which must be the same at all of them."""
        found: list[tuple[ModelManifest, int, bytes]] = []
        for reply in replies:
            length, left = reply.fields.get("manifest"), reply.fields.get("left")
            if type(length) is not int or type(left) is not int:
                raise Code.BAD_REPLY.error(found="a model without a manifest")
            text = _text(reply.payload[:length])
            found.append((ModelManifest.parse(text), left, reply.payload[length:]))
        public = {_alike(manifest) for manifest, _, _ in found}
        if len(public) > 1 or len({document for _, _, document in found}) > 1:
            raise Code.BAD_REPLY.error(
                expected=f"one model {name} at all servers", found="models that differ"
            )
        manifest, _, document = found[0]
        known = (*SERVER_PROTOCOLS, TOPDOWN, *IN_PIECES)
        if manifest.protocol not in known:
            raise Code.BAD_PARAMETER.error(
                expected=f"a protocol among {', '.join(known)}",
                found=f"protocol {jsonfile.shown(manifest.protocol)}",
                fix="use one version of Hedgerow here and at the servers",
            )
        return cls(
            manifest,
            None if manifest.protocol in IN_PIECES else manifest.read_plan(),
            min(left for _, left, _ in found),
            jsonfile.loads(_text(document), Code.BAD_MODEL_FILE) if document else None,
        )

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels, in the order of the answers' numbers; none where the target is a number."""
        assert self.plan.domain.target is not None
        return tuple(self.plan.domain.target.classes or ())


@dataclass(frozen=True)
class ModelAnswers:
    """Answers to rows.

    `index`: class of every row, as its place among `classes`; none where the target is a number.
    `shares`: class probabilities, where they were asked for.
    `values`: of a target that is a number.
    """

    index: NDArray[np.int64]
    classes: tuple[Any, ...]
    shares: NDArray[np.float64] | None = None
    values: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.index) if self.values is None else len(self.values)

    @property
    def labels(self) -> list[Any]:
        """Class label of every row, or its value."""
        found: NDArray[Any] | None = self.values
        if found is None:
            found = np.array([*self.classes, None], dtype=object)[self.index]
        return list(found.tolist())

    def to_table(self, ids: pa.ChunkedArray | pa.Array | None = None) -> pa.Table:
        """Return the answers in the columns that every model answers in.

        ``id`` of every row, or ``row`` from 0 where there are none; then ``class`` or ``value``,
        and ``p(class)`` for each where probabilities were asked for.
        """
        columns: dict[str, Any] = {"row": np.arange(len(self))} if ids is None else {"id": ids}
        if self.values is not None:
            return pa.table(columns | {"value": self.values})
        columns["class"] = pa.array(self.classes).take(pa.array(self.index))
        if self.shares is not None:
            columns |= share_columns(self.classes, self.shares)
        return pa.table(columns)


def read_answers(known: KnownModel, opened: NDArray[np.int64], what: str) -> ModelAnswers:
    """Return opened numbers as answers; H884 for numbers that no server of good will gives."""
    protocol = hidden_protocol(known.manifest.protocol)
    opened = check_classes(opened, known) if what == "class" else opened
    found = protocol.read(known.plan, opened, what)
    if what == "value":
        return ModelAnswers(np.empty(0, dtype=np.int64), (), values=found)
    index, shares = protocol.classified(known.plan, found, what)
    return ModelAnswers(index, known.classes, shares)


def check_classes(index: NDArray[np.int64], known: KnownModel) -> NDArray[np.int64]:
    """Return numbers of classes that exist; H884 for others."""
    if index.size and not 0 <= index.min() <= index.max() < len(known.classes):
        raise Code.BAD_REPLY.error(
            expected=f"classes from 0 to {len(known.classes) - 1}", found="other numbers"
        )
    return index


def answer_with_tree(known: KnownModel, rows: Encoded, *, proba: bool) -> ModelAnswers:
    """Answer with an opened tree, here."""
    assert known.tree is not None
    index = known.tree.predict_class(rows.bins).astype(np.int64)
    shares = known.tree.distribution(rows.bins) if proba else None
    return ModelAnswers(index, known.classes, shares)


def _alike(manifest: ModelManifest) -> str:
    """Return what must be the same at all servers."""
    return replace(manifest.for_others(), server=0).to_json()


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Code.BAD_REPLY.error(found="a text that is none") from None


POLL_SECONDS = 45.0
"""For one request, in which a server may keep an analyst waiting."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_AGAIN = {
    Code.SERVICE_UNREACHABLE,
    Code.REQUEST_CUT_OFF,
    Code.SERVICE_BUSY,
    Code.SERVICE_STOPPING,
    Code.REQUEST_TOO_SLOW,
}
_DTYPES = ("uint16", "uint32", "uint64")


class Reader(MembersClient):
    """What members publish, to be read by any other."""

    def find(self, model: str) -> KnownModel:
        """Return what is known of a model, which must be the same at all who keep it.

        H407 if nobody does, H884 if they differ, or what one of them refuses.
        """
        told = self._ask_all("models", {"model": check_name(model, "model")})
        replies = [reply for reply in told.values() if isinstance(reply, Reply)]
        for reply in told.values():
            # Not everybody takes part in everything.
            away = isinstance(reply, HedgerowError) and reply.code is Code.UNKNOWN_MODEL
            if isinstance(reply, HedgerowError) and not (away and replies):
                raise reply
        return KnownModel.parse(model, replies)

    def find_published(self, model: str) -> KnownModel | None:
        """Return what is known of a model that is published; None for one that is to be asked.

        H501 for one in pieces, which those who hold columns ask.
        """
        try:
            found = self.find(model).for_analysts
        except HedgerowError as error:
            # Who asks waits for servers that are away, and is told by them what it may ask.
            if error.code is Code.UNKNOWN_MODEL or not self._config.servers:
                raise
            return None
        return found if found.document is not None else None

    def fetch(self, model: str) -> dict[str, Any]:
        """Return what is published of a model, or what its peers see, to one of them.

        H501 for one that is hidden, as `find` besides.
        """
        found = self.find(model)
        if found.document is not None:
            return found.document
        where, members = found.manifest, ", ".join(found.manifest.members)
        said, fix = f"{model}, which is hidden", f"ask it: hedgerow query {model} ROWS"
        if where.protocol in IN_PIECES:
            said = f"{model}, which nobody sees: it lies in pieces with {members}"
            fix = f"ask it at one of them: hedgerow query {model} --id ID"
        if where.protocol in PEER_PROTOCOLS and self._config.name not in where.members:
            said = f"{model}, of which {members} see what there is to see, and nobody else"
            fix = "let one of them fetch it"
        raise Code.BAD_PARAMETER.error(
            expected="a model that is published, or that its peers see, at one of these",
            found=said,
            fix=fix,
        )


class Analyst:
    """Ask models as a member of a consortium.

    `timeout`: seconds after which a request that was not answered is given up.
    `waits`: told whenever a server is not there, and why; from any thread.
    """

    def __init__(
        self,
        config: PartyConfig,
        *,
        timeout: float = 120.0,
        waits: Callable[[str], None] | None = None,
    ) -> None:
        config.member(config.name, "analyst")
        self.config, self.timeout = config, timeout
        self._waits = waits or (lambda why: None)
        config.check_servers()
        self._certificates = {s.name: config.certificate(s.name) for s in config.servers}
        self._lines: dict[tuple[str, Identity], Lines] = {}
        self._unread: set[asyncio.Task[Any]] = set()

    def find(self, name: str) -> KnownModel:
        """Ask the servers about a model.

        Raises H407 if a server has no such model, H884 if theirs differ; what `call` raises, if a
        server that is away does not come back in time.
        """
        end, pause = time.monotonic() + self.timeout, _FIRST_PAUSE
        while True:
            found = wait_for(self._all("models", {"model": name}, [None] * 3, until=end))
            refused = [r for r in found.values() if isinstance(r, HedgerowError)]
            final = [error for error in refused if error.code not in _AGAIN]
            if not refused:
                break
            if final or time.monotonic() + pause > end:
                raise (final or refused)[0]
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        replies = [r for r in found.values() if isinstance(r, Reply)]
        return KnownModel.parse(name, replies).for_analysts

    def ask(self, model: str | KnownModel, rows: Any, *, proba: bool = False) -> ModelAnswers:
        """Ask a model about rows.

        `model`: a name, or what `find` has returned for it.
        `rows`: see `hedgerow.tables.encode`; the target is not needed.
        `proba`: for class probabilities as well; H501 where the target is a number.
        Raises H1xx for rows outside the domain; H207 or H858 if a budget is spent, with what is
        left; H898 if the servers do not answer in time.
        """
        known = self.find(model) if isinstance(model, str) else model
        encoded = encode(rows, known.plan.domain)
        if known.tree is not None:
            return answer_with_tree(known, encoded, proba=proba)
        n, what = encoded.n_slots, hidden_protocol(known.manifest.protocol).asks(known.plan, proba)
        if n > known.left:
            raise Code.BUDGET_EXCEEDED.error(
                expected=f"at most {known.left:,} more rows of {known.manifest.name}",
                found=f"{n:,} rows",
                fix="ask for fewer, or keep answers that were given",
            )
        step = rows_at_once(known.plan)
        parts = [
            self._answer(known, encoded.rows(np.arange(at, min(at + step, n))), what)
            for at in range(0, n, step)
        ]
        return read_answers(known, np.concatenate(parts), what)

    def _answer(self, known: KnownModel, rows: Encoded, what: str) -> NDArray[np.int64]:
        """Ask about some rows in one request."""
        plan, n = known.plan, rows.n_slots
        asked = {"model": known.manifest.name, "id": secrets.token_hex(16), "n": n, "what": what}
        inquiry = Inquiry.model_validate(asked)
        parts = deal_queries(plan.layout, rows).values()
        halves = self._halves(inquiry, [write_part(part) for part in parts])
        (opening,) = hidden_protocol(known.manifest.protocol).answer_openings(plan, n, what)
        shape = opening.resolve({}).shape
        return join_replies(halves, shape)

    def _halves(self, inquiry: Inquiry, parts: list[Any]) -> dict[int, Reply]:
        """Make a request until both halves are there; always the same request."""
        end, pause = time.monotonic() + self.timeout, _FIRST_PAUSE
        while True:
            begun = time.monotonic()
            found = wait_for(self._all("query", inquiry.model_dump(), parts, until=end))
            refused = [r for r in found.values() if isinstance(r, HedgerowError)]
            refused = [error for error in refused if error.code not in _AGAIN]
            if refused:
                # The server that has a reason of its own says more than those that follow it.
                raise min(refused, key=lambda e: e.code is Code.QUERY_REFUSED_ELSEWHERE)
            done = _replies_with_answers(found)
            if set(HALVES) <= set(done):
                return done
            if time.monotonic() + pause > end:
                raise self._late(inquiry, found)
            inquiry = inquiry.model_copy(update={"again": True})
            # A server that has kept this analyst waiting may be asked again at once.
            time.sleep(max(0.0, pause - (time.monotonic() - begun)))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _all(
        self, verb: str, fields: Fields, payloads: list[Payload], *, until: float
    ) -> dict[int, Reply | HedgerowError]:
        """Make a request to all servers at once; stop at the first refusal that is final.

        A server that is not there is asked again for a while.
        """
        end = time.monotonic() + max(1.0, min(until - time.monotonic(), POLL_SECONDS))
        over = asyncio.Event()

        async def make(number: int, server: Member) -> tuple[int, Reply | HedgerowError]:
            asked, pause = fields, _FIRST_PAUSE
            while True:
                try:
                    rest = max(1.0, end - time.monotonic())
                    return number, await self._ask(server, verb, asked, payloads[number], rest)
                except HedgerowError as error:
                    if error.code not in _AGAIN:
                        return number, error
                    self._waits(f"waiting for {server.name}: {error.found}")
                    # The others may keep this analyst waiting for just what this one has lost.
                    if time.monotonic() + pause > end or over.is_set():
                        return number, error
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                asked = {**fields, "again": True} if "again" in fields else fields

        found: dict[int, Reply | HedgerowError] = {}
        # What is not waited for ends by itself: cut off, it would take its connection with it.
        left = {asyncio.ensure_future(make(*one)) for one in enumerate(self.config.servers)}
        while left and not _is_settled(found):
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            found |= dict(task.result() for task in done)
        over.set()
        for task in left:
            task.add_done_callback(_leave_unread)
        self._unread = {task for task in self._unread | left if not task.done()}
        return dict(sorted(found.items()))

    async def _ask(
        self, server: Member, verb: str, fields: Fields, payload: Payload, seconds: float
    ) -> Reply:
        # A connection belongs to who has shown its certificate on it.
        identity, certificate = self.config.identity, self._certificates[server.name]
        key = server.name, identity
        if key not in self._lines:
            self._lines[key] = Lines(identity, certificate)
        return await ask(
            (server.host, server.port),
            identity,
            certificate,
            verb,
            fields,
            payload,
            name=server.name,
            timeout=seconds,
            connect_timeout=min(seconds, self.config.timeouts.connect),
            # Queries may be made twice.
            lines=self._lines[key],
        )

    def _late(self, inquiry: Inquiry, found: dict[int, Reply | HedgerowError]) -> HedgerowError:
        said = []
        for number, reply in found.items():
            name = self.config.servers[number].name
            if isinstance(reply, HedgerowError):
                said.append(f"{name}: {reply.code.number} {reply.found}")
            elif reply.fields.get("state") != "answered":
                said.append(f"{name} waits: {jsonfile.shown(reply.fields.get('why', ''))}")
        return Code.QUERY_NOT_ANSWERED.error(
            expected=f"an answer to {inquiry.n} rows within {self.timeout:g} s",
            found="; ".join(said) or "none",
        )


def _leave_unread(task: asyncio.Task[Any]) -> None:
    """Take what became of a request that nobody waits for: its process may have ended before it."""
    if not task.cancelled():
        task.exception()


def _is_settled(found: Mapping[int, Reply | HedgerowError]) -> bool:
    """Return whether nothing is left to wait for: both halves are there, or a reason for none."""
    final = {reply.code for reply in found.values() if isinstance(reply, HedgerowError)}
    if final - _AGAIN - {Code.QUERY_REFUSED_ELSEWHERE}:
        return True
    return set(HALVES) <= set(_replies_with_answers(found))


def _replies_with_answers(found: Mapping[int, Reply | HedgerowError]) -> dict[int, Reply]:
    """Return the replies that bring an answer."""
    return {
        server: reply
        for server, reply in found.items()
        if isinstance(reply, Reply) and reply.fields.get("state") == "answered"
    }


def rows_at_once(plan: ServerPlan) -> int:
    """Return how many rows go into one request."""
    rows = MOST_ROWS
    while rows > 1 and part_bytes(plan.layout, rows, 1) > LARGEST_PART:
        rows //= 2
    return rows


def join_replies(
    replies: Mapping[int, Reply], shape: tuple[int, ...], begins: int = 0
) -> NDArray[np.int64]:
    """Join the halves that servers have sent of one answer; H884 for anything else."""
    found = {server: _half(replies[server], shape, begins) for server in HALVES}
    if replies[0].fields.get("draw") != replies[1].fields.get("draw"):
        raise Code.BAD_REPLY.error(expected="two halves of one answer", found="of two")
    return join_answers(found)


def _half(reply: Reply, shape: tuple[int, ...], begins: int = 0) -> NDArray[Any]:
    """Read the half of an answer that `begins` in the payload; H884 for anything else."""
    dtype, found = reply.fields.get("dtype"), reply.fields.get("shape")
    if dtype not in _DTYPES or found != list(shape):
        raise Code.BAD_REPLY.error(expected=f"a half of shape {shape}", found="another")
    kind = np.dtype(dtype)
    octets = reply.payload[begins:]
    if len(octets) != prod(shape) * kind.itemsize:
        raise Code.BAD_REPLY.error(expected=f"a half of shape {shape}", found="other bytes")
    half = np.frombuffer(octets, dtype=kind.newbyteorder("<"))
    return half.astype(kind, copy=True).reshape(shape)
