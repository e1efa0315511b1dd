"""`SecureServers`: the servers' side of DP-TopDown on secret counts.

A question comes with the sealed parts of the owners, and what goes back are released numbers, the
same from every server. If it is one of the plan, in order, about nodes not asked about before:

1. The servers compare what they were asked, and how far each is with it (`agree`).
2. Each opens its parts. An owner is left out whose parts do not open, came to two servers in
   different versions, or hold counts out of range; all servers come to the same verdict.
3. The counts of the others are added up; `SecureSplits` computes the numbers, with their noise.
4. Every server keeps its shares of the result (`keep`), and says so.
5. Only when all have it is it opened, and before a share of it leaves every server marks that, as
   durably. After a failure what was marked is opened again and never drawn again: while one of the
   three says that it has given away a share, the others go on from that draw or not at all. Of what
   no server has marked nobody has seen anything.

Reveals: to the public, the released numbers; to the servers, who was left out.
Cost: `hedgerow.protocols.topdown.secure_splits.cost_answer`, and `cost_agreement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.privacy import Leakage, Ledger, NoiseSource
from hedgerow.protocols.contract import Computed
from hedgerow.protocols.hidden.programs import (
    SEEDED,
    check_together,
    mark_collusion,
    server_engine,
)
from hedgerow.protocols.sharing.sealed_parts import Parts
from hedgerow.protocols.topdown.agreement import Stage, agree, await_kept
from hedgerow.protocols.topdown.growth import TreeShape
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.secure_splits import (
    SecureSplits,
    answer_arrays,
    compute_numbers,
    declare,
    opening_name,
)
from hedgerow.protocols.topdown.wire import (
    OF_OWNERS,
    SERVER_NAMES,
    Ask,
    TopDownAnswer,
    open_part,
    pack,
    unpack,
)
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

_VERSION = 2
_RINGS = ("uint16", "uint32", "uint64")


@dataclass(frozen=True)
class LastQuestion:
    """The question that came last, as far as it got.

    `ask` is without the parts, `data` has the shares of the servers that live here, `used`
    (owners,) whose counts are in them; `tag` is the same where shares fit together; `marked`:
    shares may have left this process; `numbers`: what was opened.
    """

    ask: Ask
    data: NDArray[Any]
    used: NDArray[np.int64]
    tag: bytes
    marked: bool = False
    numbers: NDArray[np.int64] | None = None


def forget(state: bytes) -> None:
    """Keep nothing: a server that fails cannot go on."""


class SecureServers:
    """The servers that live in one process: one, or all three.

    A key that is made for one run cannot open the parts of another; where a key is used for
    several, `keep`, which gets `state`, must return only when that is durable. `meet` returns a
    network of the three servers, and again after it has failed; ``computed="clear"``, one process
    that holds all three keys and computes on plain numbers, does not use it. A `seed` makes the
    noise repeatable, recorded as not private. The ledger is charged now for the worst case of all
    owners. `leakage` lists what each question declared, and what was opened for it here.
    """

    def __init__(
        self,
        plan: TopDownPlan,
        keys: Mapping[int, SealingKey],
        meet: Callable[[], Network],
        *,
        computed: Computed = "replicated",
        keep: Callable[[bytes], None] = forget,
        seed: int | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.plan, self.splits = plan, SecureSplits(plan)
        self.keys, self.keep, self.computed = dict(keys), keep, computed
        if not self.keys or not set(self.keys) <= set(range(SERVERS)):
            raise Code.BAD_PARAMETER.error(
                expected="keys of servers 0, 1 and 2", found=f"keys of {sorted(self.keys)}"
            )
        check_together(computed, self.keys)
        self.shape = TreeShape(plan)
        self.leakage: list[Leakage] = []
        self.ledger = _ledger_of(plan) if ledger is None else ledger
        self._meet, self._seed = meet, seed
        self._network: Network | None = None
        self._source = NoiseSource.system() if seed is None else NoiseSource.insecure_seeded(seed)
        self._last: LastQuestion | None = None
        self._charge()

    def answers(self, asks: Mapping[str, bytes]) -> dict[str, bytes]:
        """Answer a question to every server that lives here, by name; all three must be asked.

        H820 for a question that the plan does not allow now or that differs between servers, H821
        for one that would be paid twice, H840 if a server has lost what it kept; else what the
        network says. The same question may then be asked again, of all three servers.
        """
        asked = {self._server_number(name): Ask.from_bytes(ask) for name, ask in asks.items()}
        if set(asked) != set(self.keys):
            raise Code.BAD_ASK.error(
                expected=f"one question for each of {sorted(self.keys)}", found=f"{sorted(asked)}"
            )
        question = common_question(asked)
        last = self._last
        if last is not None and last.ask.to_bytes() == question.to_bytes():
            shape = self.shape
        else:
            shape, last = check_question(question, self.plan, self.shape.splits, last), None
        try:
            numbers, used = self._answer(question, asked, shape, last)
        except BaseException as error:
            self._hang_up(error)
            raise
        arrays = answer_arrays(question, numbers, used)
        answer = TopDownAnswer(self.plan.digest, question.round, question.nodes, arrays).to_bytes()
        return {SERVER_NAMES[server]: answer for server in asked}

    def what_was_learned(self, audience: str) -> list[dict[str, Any]]:
        """Return one row per opening to an audience; those of one name and payment are joined."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for row in (row for one in self.leakage for row in one.what_was_learned(audience)):
            known = rows.setdefault((row["name"], row["why"]), {**row, "times": 0, "values": 0})
            known["times"] += row["times"]
            known["values"] += row["values"]
        return list(rows.values())

    def _answer(
        self, question: Ask, asked: Mapping[int, Ask], shape: TreeShape, last: LastQuestion | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Compute, keep and open; or only open what is kept, where it was asked before."""
        if last is not None and last.numbers is not None and len(self.keys) == SERVERS:
            return last.numbers, last.used
        kept, tag = self._is_kept(question, last)
        if not kept:
            last = None
        leakage = declare(self.plan, question, shape, ledger=self.ledger, mark=self._mark)
        engine = self._engine(leakage, question.round)
        self.leakage.append(leakage)
        if last is None:
            parts = self._open_parts(question, asked, shape)
            made = compute_numbers(engine, self.splits, question, shape, parts)
            last = LastQuestion(question, made.numbers.data, made.used, tag)
            # Not before it is durable: what is not kept must never be opened.
            self.keep(self._state(shape, last))
            self.shape, self._last = shape, last
            if self._network is not None:
                await_kept(self._network)
        numbers = self._open(engine, last)
        opened = replace(last, marked=True, numbers=numbers)
        self.keep(self._state(self.shape, opened))
        self._last = opened
        return numbers, last.used

    def _mark(self, name: str) -> None:
        """Keep that shares of what is kept here are about to leave; see `Leakage`."""
        last = self._last
        assert last is not None
        assert name == opening_name(last.ask)
        if not last.marked:
            marked = replace(last, marked=True)
            self.keep(self._state(self.shape, marked))
            self._last = marked

    def _is_kept(self, question: Ask, last: LastQuestion | None) -> tuple[bool, bytes]:
        """Whether all servers have kept what there is to open, else nobody has seen it; its tag."""
        if self.computed == "clear":
            return last is not None, b""
        if self._network is None:
            self._network = self._meet()
        if last is None:
            found = agree(self._network, question, Stage.FRESH)
        else:
            found = agree(self._network, question, _stage_of(last), last.tag)
        return found.stage is not Stage.FRESH, found.tag

    def _open(self, engine: Engine, last: LastQuestion) -> NDArray[np.int64]:
        ring = Ring(8 * last.data.dtype.itemsize)
        opened = engine.open(Secret(engine, ring, last.data), opening_name(last.ask), "public")
        if isinstance(engine, ReplicatedEngine):
            engine.finish()
        assert opened is not None
        found: NDArray[np.int64] = ring.signed(opened).astype(np.int64)
        return found

    def _engine(self, leakage: Leakage, number: int) -> Engine:
        how, session = self.computed, f"{self.plan.digest} {number}"
        return server_engine(how, self._network, leakage, session, self._seed, self._source)

    def _open_parts(self, question: Ask, asked: Mapping[int, Ask], looked_at: TreeShape) -> Parts:
        phase = OF_OWNERS[question.phase]
        shape, ring = self.splits.shared_array(phase, len(question.nodes))
        parts: Parts = {server: [] for server in sorted(asked)}
        for server in parts:
            for owner in question.arrays:
                sealed = asked[server].arrays[owner]
                at = (question, looked_at.splits, owner, server, shape, ring)
                try:
                    parts[server].append(open_part(sealed, self.keys[server], *at))
                except HedgerowError:
                    parts[server].append(None)
        return parts

    def _server_number(self, name: str) -> int:
        if name not in SERVER_NAMES:
            raise Code.BAD_ASK.error(expected="a question to a server", found=f"to {name!r:.40}")
        return SERVER_NAMES.index(name)

    def _charge(self) -> None:
        if not self.plan.is_private:
            self.ledger.mark_not_private("there is no noise")
        elif self._seed is not None:
            self.ledger.mark_not_private(SEEDED)
        mark_collusion(self.ledger)
        self.ledger.charge(*self.plan.releases(joint=True))

    def _hang_up(self, error: BaseException) -> None:
        """Tell the other servers that this question has failed here."""
        if self._network is not None:
            self._network.__exit__(type(error), error, None)
            self._network = None

    def state(self) -> bytes:
        """Return what to keep, as secret as the shares in it; the keys are not in it."""
        return self._state(self.shape, self._last)

    def _state(self, shape: TreeShape, last: LastQuestion | None) -> bytes:
        return write_state(self.plan, sorted(self.keys), shape.splits, last)

    @classmethod
    def resume(cls, plan: TopDownPlan, state: bytes, **options: Any) -> Self:
        """Go on from `state`, with the other parameters as before; H840 if it is not theirs.

        A ledger that is passed was charged by whoever wrote the state, and is not charged again.
        """
        self = cls(plan, **options | {"ledger": None})
        self.ledger = options.get("ledger") or self.ledger
        splits, self._last = read_state(state, plan, sorted(self.keys))
        self.shape.expand(splits)
        return self


def _stage_of(last: LastQuestion) -> Stage:
    if last.numbers is not None:
        return Stage.OPENED
    return Stage.OPENING if last.marked else Stage.KEPT


def _ledger_of(plan: TopDownPlan) -> Ledger:
    """Return a new ledger; one that promises nothing where the domain was read from data."""
    if plan.domain.is_public:
        return Ledger(domain=plan.domain)
    ledger = Ledger()
    ledger.mark_not_private("the domain was read from the data")
    return ledger


def common_question(asked: Mapping[int, Ask]) -> Ask:
    """Return what all servers here are asked alike, without the sealed bytes; else H820."""
    nothing = np.zeros(0, dtype=np.uint8)
    found = [replace(ask, arrays=dict.fromkeys(ask.arrays, nothing)) for ask in asked.values()]
    if any(ask.to_bytes() != found[0].to_bytes() for ask in found):
        raise Code.BAD_ASK.error(
            expected="the same question to all servers", found="questions that differ"
        )
    return found[0]


def check_question(
    ask: Ask, plan: TopDownPlan, splits: Sequence[tuple[int, int]], last: LastQuestion | None
) -> TreeShape:
    """Return the shape with its splits made; H820 if not allowed now, H821 if paid for."""
    _check_order(ask, plan, last)
    if not 1 <= len(ask.arrays) <= plan.n_owners:
        raise Code.BAD_ASK.error(
            expected=f"parts of 1 to {plan.n_owners} owners", found=f"parts of {len(ask.arrays)}"
        )
    shape = TreeShape(plan, splits)
    shape.check(ask.expand)
    first = shape.n_nodes if last is not None else 0
    shape.expand(ask.expand)
    if OF_OWNERS[ask.phase] == "nodes":
        shape.check_nodes(ask.nodes, first)
    else:
        shape.check_leaves(ask.nodes)
    return shape


def _check_order(ask: Ask, plan: TopDownPlan, last: LastQuestion | None) -> None:
    due = 1 if last is None else last.ask.round + 2
    if ask.plan != plan.digest:
        raise Code.BAD_ASK.error(
            expected=f"a question of the plan {plan.digest[:16]}",
            found=f"one of the plan {ask.plan[:16]!r}",
        )
    if last is not None and (ask.round < due or OF_OWNERS[last.ask.phase] == "leaves"):
        raise Code.ASKED_TWICE.error(
            expected=f"round {due}, or the question of round {last.ask.round}",
            found=f"another question in round {ask.round}",
        )
    first_is_leaves = last is None and ask.phase != "servers"
    if ask.round != due or ask.phase not in OF_OWNERS or ask.among or first_is_leaves:
        raise Code.BAD_ASK.error(
            expected=f"a question to servers in round {due}",
            found=f"phase {ask.phase!r:.40} in round {ask.round}",
        )


def write_state(
    plan: TopDownPlan,
    servers: Sequence[int],
    splits: Sequence[tuple[int, int]],
    last: LastQuestion | None,
) -> bytes:
    """Write the state of some servers."""
    head: dict[str, Any] = {
        "hedgerow": "topdown server",
        "version": _VERSION,
        "plan": plan.digest,
        "servers": list(servers),
        "splits": [list(pair) for pair in splits],
        "last": None,
    }
    if last is None:
        return pack(head, {})
    little = last.data.astype(last.data.dtype.newbyteorder("<"), copy=False)
    head["last"] = [last.data.dtype.name, list(last.data.shape), last.tag.hex(), last.marked]
    arrays: dict[str, NDArray[Any]] = {
        "ask": np.frombuffer(last.ask.to_bytes(), dtype=np.uint8),
        "data": np.ascontiguousarray(little).reshape(-1).view(np.uint8),
        "used": last.used,
    }
    if last.numbers is not None:
        arrays["numbers"] = last.numbers
    return pack(head, arrays)


def read_state(
    state: bytes, plan: TopDownPlan, servers: Sequence[int]
) -> tuple[list[tuple[int, int]], LastQuestion | None]:
    """Read what `write_state` wrote: the splits, and the last question; else H840."""
    head, arrays = unpack(state, Code.ANSWERS_LOST)
    found = tuple(head.get(name) for name in ("hedgerow", "version", "plan", "servers"))
    if found != ("topdown server", _VERSION, plan.digest, list(servers)):
        raise Code.ANSWERS_LOST.error(
            expected=f"the state of servers {list(servers)} in the plan {plan.digest[:16]}",
            found="that of another plan, of other servers, or another file",
        )
    try:
        splits = [(int(a), int(b)) for a, b in head["splits"]]
        if head["last"] is None:
            return splits, None
        name, shape, tag, marked = head["last"]
        if name not in _RINGS or type(marked) is not bool:
            raise ValueError(name)
        data = np.frombuffer(arrays["data"].tobytes(), np.dtype(name).newbyteorder("<"))
        ask = Ask.from_bytes(arrays["ask"].tobytes())
        native = data.astype(name).reshape(shape)
        used, numbers = arrays["used"], arrays.get("numbers")
        return splits, LastQuestion(ask, native, used, bytes.fromhex(tag), marked, numbers)
    except (HedgerowError, ValueError, TypeError, KeyError):
        raise Code.ANSWERS_LOST.error(found="a damaged state") from None
