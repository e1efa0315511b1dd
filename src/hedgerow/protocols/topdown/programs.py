"""What each role of DP-TopDown does, from the first message to the tree.

Members are numbered: the three servers, where the method is "secure-counts", then the coordinator,
then the owners. The coordinator asks owners and servers by mail, and they answer by mail; servers
are in lock-step among themselves.

Whoever answers keeps its state before an answer leaves, and gives the same bytes to the same
question; the coordinator keeps an answer before it asks what follows from it. So a run may be cut
off anywhere: begun again with what its members have kept, it goes on with the same question, and
nobody draws twice. Who is lost ends the attempt; the next one may begin without an owner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hedgerow import jsonfile
from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code
from hedgerow.net.network import MAX_MAIL_BYTES
from hedgerow.privacy import Ledger
from hedgerow.protocols.contract import Context, Program
from hedgerow.protocols.sharing.sealed_parts import read_keys, write_keys
from hedgerow.protocols.topdown.coordinator import Coordinator, CoordinatorTraffic, Dropouts
from hedgerow.protocols.topdown.owner import Owner, SecureOwner
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.server import SecureServers
from hedgerow.protocols.topdown.splits import SecureCounts
from hedgerow.protocols.topdown.wire import MOST_HEADER, SERVER_NAMES
from hedgerow.secure.replicated.core import EVERYONE, SERVERS
from hedgerow.trees.tree import Tree

KEY, ASK, ANSWER, TREE = "sealing key", "ask", "answer", "tree"
"""Steps of mail. An empty question is the last one, and the tree comes after it."""
MAIL = (KEY, ASK, ANSWER, TREE)
_END = b""
_SEAL = 1 << 10
"""More than sealing adds to a part."""


class TopDownTerms(Protocol):
    """What the programs take from a job, beside its plan."""

    @property
    def owners(self) -> Sequence[str]:
        """Names of all owners, in order."""

    @property
    def dropouts(self) -> Dropouts:
        """Whether an attempt may begin without an owner that was lost."""

    @property
    def least_owners(self) -> int:
        """Owners without whom there is no tree."""


@dataclass(frozen=True)
class GrownTree:
    """What the coordinator has at the end; `left_out` has round and number of the error.

    Owners that were `lost` have not answered all questions.
    """

    tree: Tree
    traffic: CoordinatorTraffic
    left_out: Sequence[tuple[int, str, str]]
    lost: Sequence[str] = ()


@dataclass(frozen=True)
class ServerRecord:
    """What a server has at the end; `learned` is what the public and the servers learned."""

    tree: bytes = field(repr=False)
    ledger: Ledger = field(repr=False)
    learned: Mapping[str, list[dict[str, Any]]] = field(repr=False)


def coordinator_seat(plan: TopDownPlan) -> int:
    """Return the number of the coordinator; those of the servers are below it, owners above."""
    return SERVERS if plan.method == "secure-counts" else 0


def longest_mail(plan: TopDownPlan) -> int:
    """Return what no message of a run exceeds, in bytes, from public numbers."""
    nodes = 8 * plan.n_splits  # 4M - 1 looks at most, two nodes below each
    cells = plan.n_classes * 2 * max(len(plan.candidates), plan.candidates.total_bins)
    # An owner seals a part for each server; a server gets a part of each owner.
    copies = max(SERVERS, plan.n_owners) if coordinator_seat(plan) else 1
    return min(MAX_MAIL_BYTES, MOST_HEADER + copies * (_SEAL + 8 * nodes * (1 + cells)))


def program_of(plan: TopDownPlan, party: int) -> Program:
    """Return what the member with this number does."""
    seat = coordinator_seat(plan)
    return server if party < seat else coordinator if party == seat else owner


def coordinator(context: Context) -> GrownTree:
    """Ask until the tree is grown, and send it to everybody.

    1. Hear again what was heard in earlier attempts. Servers can only answer together: a question
       that not all of them have answered is asked again of all.
    2. Drop owners that are not there any more; H824 if too few are left, or the job waits for them.
    3. Ask whoever has yet to answer, and keep each answer.

    Reveals, Cost: as `hedgerow.protocols.topdown.coordinator`.
    """
    plan, network, memory, me = context.plan, context.network, context.memory, context.party
    network.most_mail = longest_mail(plan)
    seats = dict(zip(SERVER_NAMES[:me], range(me), strict=True))
    seats |= {name: party for party, name in enumerate(context.members) if party > me}
    terms: TopDownTerms = context.job
    state = Coordinator(plan, terms.owners, dropouts=terms.dropouts, least=terms.least_owners)
    for line in memory.lines():
        _hear_line(state, line)
    state.ask_again()
    _drop_absent(state, context, seats)
    while asks := state.asks():
        context.progress(_progress_of(state))
        for name, ask in asks.items():
            network.post(ASK, me, seats[name], ask)
        waiting = {seats[name]: name for name in asks}
        while waiting:
            party, answer = network.receive(ANSWER, me, list(waiting))
            name = waiting.pop(party)
            # What it refuses is not kept; what is kept was not used for a question before.
            state.hear(name, answer)
            memory.append(_line(answer, of=name))
    context.progress(_progress_of(state))
    tree = state.tree()
    last = tree.to_json().encode()
    for party in seats.values():
        network.post(ASK, me, party, _END)
        network.post(TREE, me, party, last)
    return GrownTree(tree, state.traffic, left_out_of(state), tuple(state.lost_owners))


def owner(context: Context) -> bytes:
    """Answer until the tree is grown; return it as JSON.

    With secret counts, every server sends its sealing key first, over a connection of its own.

    Reveals, Cost: as `hedgerow.protocols.topdown.owner`.
    """
    plan, network, memory, me = context.plan, context.network, context.memory, context.party
    network.most_mail = longest_mail(plan)
    asker = coordinator_seat(plan)
    known: dict[str, Any] = {"name": context.members[me], "source": context.source}
    kind: type[Owner] = Owner
    if asker:
        kind = SecureOwner
        keys = [network.receive(KEY, me, [server])[1] for server in range(SERVERS)]
        known["server_keys"] = keys
    state = memory.load()
    if state is None:
        here = kind(context.table, plan, **known)
    else:
        here = kind.resume(context.table, plan, state, **known)
    while ask := network.receive(ASK, me, [asker])[1]:
        answer = here.answer(ask)
        context.keep(here.state)
        network.post(ANSWER, me, asker, answer)
    return network.receive(TREE, me, [asker])[1]


def server(context: Context) -> ServerRecord:
    """Be one of the three servers of secret counts, or all of them; answer until the tree is grown.

    The sealing key is kept before its public half leaves: what owners have sealed for it can be
    opened in any later attempt.

    Reveals, Cost: as `hedgerow.protocols.topdown.server`.
    """
    plan, network = context.plan, context.network
    network.most_mail = longest_mail(plan)
    asker, here = coordinator_seat(plan), network.local
    servers = _servers(context)
    for party in here:
        for other in range(asker + 1, network.n):
            network.post(KEY, party, other, servers.keys[party].public)
    while True:
        asks = {SERVER_NAMES[party]: network.receive(ASK, party, [asker])[1] for party in here}
        if not any(asks.values()):
            break
        for name, answer in servers.answers(asks).items():
            network.post(ANSWER, SERVER_NAMES.index(name), asker, answer)
    (tree,) = {network.receive(TREE, party, [asker])[1] for party in here}
    learned = {audience: servers.what_was_learned(audience) for audience in ("public", EVERYONE)}
    return ServerRecord(tree, servers.ledger, learned)


def left_out_of(state: Coordinator) -> list[tuple[int, str, str]]:
    """Return the owners whose counts could not be used, with round and number of the error."""
    return list(state.split.left_out) if isinstance(state.split, SecureCounts) else []


def _drop_absent(state: Coordinator, context: Context, seats: Mapping[str, int]) -> None:
    if not state.asks():
        # The tree is grown: nobody is missing.
        return
    absent = [name for name in state.present if name not in seats]
    left = len(state.present) - len(absent)
    if absent and (state.dropouts == "wait" or left < state.least):
        least = len(state.present) if state.dropouts == "wait" else state.least
        raise Code.TOO_FEW_OWNERS.error(expected=f"at least {least} owners", found=f"{left}")
    for name in absent:
        state.drop(name)
        context.memory.append(_line(lost=name))


def _line(answer: bytes = b"", **head: str) -> bytes:
    """Write what the coordinator keeps: whose answer it is, or who was lost."""
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + answer


def _hear_line(state: Coordinator, line: bytes) -> None:
    head, _, answer = line.partition(b"\n")
    known = jsonfile.loads(head, Code.BAD_ANSWER)
    if "lost" in known:
        state.drop(str(known["lost"]))
    else:
        state.hear(str(known.get("of")), answer)


def _progress_of(state: Coordinator) -> dict[str, int]:
    traffic = state.traffic
    return {
        "round": state.round,
        "splits": state.n_splits,
        "owners": len(state.present),
        "sent": traffic.sent,
        "received": traffic.received,
    }


def _servers(context: Context) -> SecureServers:
    """Make the servers that live here, or go on with what they have kept."""
    plan, network, memory = context.plan, context.network, context.memory
    kept = memory.load()
    state, keys = b"", {party: SealingKey() for party in network.local}
    if kept is not None:
        head, _, state = kept.partition(b"\n")
        keys = read_keys(head, network.local)
    secret = write_keys(keys)

    def keep(state: bytes) -> None:
        memory.keep(secret + b"\n" + state)

    options: dict[str, Any] = {
        "keys": keys,
        "meet": lambda: network,
        "computed": context.engine,
        "keep": keep,
        "seed": context.seed,
    }
    if kept is not None:
        return SecureServers.resume(plan, state, **options, ledger=context.ledger)
    servers = SecureServers(plan, **options)
    servers.ledger = context.ledger or servers.ledger
    keep(servers.state())
    return servers
