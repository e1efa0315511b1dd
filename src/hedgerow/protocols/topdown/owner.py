"""One owner's side of DP-TopDown, without a network.

An owner trusts nobody with its rows, the coordinator least: it answers the questions of the plan
that it agreed to and charged, each once, about nodes that its own record of the tree has. The same
question again gets the same bytes; one that would draw twice about the same records is refused.

The counts of a `SecureOwner` leave as shares, without noise of its own; here too each node is
shared once, so that no second release about the same records can be made without the owner.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hedgerow.crypto.sealed import KEY_BYTES
from hedgerow.errors import Code
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.topdown.answers import label, recount, weigh_and_split
from hedgerow.protocols.topdown.growth import TreeShape
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.secure_splits import SecureSplits
from hedgerow.protocols.topdown.wire import Arrays, Ask, TopDownAnswer, seal_parts
from hedgerow.secure.replicated.core import SERVERS
from hedgerow.tables import Encoded, check_capacity
from hedgerow.trees.counts.leaves import LeafCounts

_STATE_FIELDS = {"hedgerow", "version", "plan", "name", "round", "phase", "splits", "ask", "answer"}

_ROUNDS = 2
"""Of a question: one of the owners, one of the servers."""


class Owner:
    """An owner with its table, of rows of the plan's domain; none at all is allowed.

    The ledger is charged now, before the first answer, for the worst case; where there is none, the
    caller has done so. H117 for a table of another domain, H112 for more rows than the capacity,
    H202 for a domain that was read from the data; nothing is charged then.

    Reveals: what its answers hold, which the plan's releases list, to the public.
    Cost: one answer per round; its bytes follow from the question.
    """

    def __init__(
        self,
        table: Encoded | LeafCounts,
        plan: TopDownPlan,
        *,
        name: str,
        source: NoiseSource,
        ledger: Ledger | None = None,
    ) -> None:
        self.plan, self.name, self.source = plan, name, source
        self.counts = counts_of(table, plan)
        self.shape = TreeShape(plan)
        self._round, self._phase = -1, "begin"
        self._ask, self._answer = b"", b""
        if ledger is not None:
            charge_plan(plan, ledger, source)

    def answer(self, ask: bytes) -> bytes:
        """Answer a question of the coordinator; keep `state` before the answer is sent.

        H820 for a question that the plan does not allow now, H821 for one that would be paid twice.
        Nothing is drawn then, and the owner stands where it stood.
        """
        ask = bytes(ask)
        if self._round >= 0 and ask == self._ask:
            return self._answer
        asked = Ask.from_bytes(ask)
        self._check(asked)
        shape = self.shape.copy()
        shape.expand(asked.expand)
        self._check_nodes(asked, shape, self.shape.n_nodes if asked.round else 0)
        counts = self.counts
        if asked.expand:
            nodes, choices = zip(*asked.expand, strict=True)
            counts = counts.after(nodes, choices)
        arrays = self._draw(asked, shape, counts)
        answer = TopDownAnswer(self.plan.digest, asked.round, asked.nodes, arrays).to_bytes()
        # All at once, and last: after a failure the owner stands where it stood.
        self.shape, self.counts = shape, counts
        self._round, self._phase, self._ask, self._answer = asked.round, asked.phase, ask, answer
        return answer

    def _draw(self, ask: Ask, shape: TreeShape, table: LeafCounts) -> Arrays:
        if ask.phase == "leaves":
            return label(table, self.plan, ask.nodes, self.source)
        depths = shape.depths(ask.nodes)
        if ask.phase == "recount":
            return recount(table, self.plan, ask.nodes, depths, ask.among, self.source)
        valid = shape.undecided(ask.nodes)
        return weigh_and_split(table, self.plan, ask.nodes, depths, valid, self.source)

    def _check(self, ask: Ask) -> None:
        if ask.plan != self.plan.digest:
            raise Code.BAD_ASK.error(
                expected=f"a question of the plan {self.plan.digest[:16]}",
                found=f"one of the plan {ask.plan[:16]!r}",
                fix="make sure that all parties have the same job: the same domain, epsilon and "
                "all other numbers",
            )
        if self._phase == "leaves":
            raise Code.ASKED_TWICE.error(found="a question after the leaves were labelled")
        if ask.round <= self._round:
            raise Code.ASKED_TWICE.error(
                expected=f"round {self._round + 1}, or the same bytes as in round {self._round}",
                found=f"other bytes in round {ask.round}",
            )
        if ask.round != self._round + 1:
            raise Code.BAD_ASK.error(
                expected=f"round {self._round + 1}", found=f"round {ask.round}"
            )
        if ask.phase not in self._phases():
            raise Code.BAD_ASK.error(
                expected=" or ".join(self._phases()), found=f"phase {ask.phase!r:.40}"
            )
        if ask.arrays:
            raise Code.BAD_ASK.error(found="arrays in a question to an owner")
        self.shape.check(ask.expand)

    def _phases(self) -> tuple[str, ...]:
        if self._phase == "begin":
            return ("nodes",)
        if self.plan.method == "local-rnm" and self._phase == "nodes":
            return ("recount",)
        return ("nodes", "leaves")

    def _check_nodes(self, ask: Ask, shape: TreeShape, first: int) -> None:
        """Check what is asked about, once the splits of the question are made."""
        if ask.phase == "recount":
            self._check_recount(ask)
        elif ask.among:
            raise Code.BAD_ASK.error(found=f"candidates in phase {ask.phase!r}")
        elif ask.phase == "nodes":
            shape.check_nodes(ask.nodes, first)
        else:
            shape.check_leaves(ask.nodes)

    def _check_recount(self, ask: Ask) -> None:
        last = Ask.from_bytes(self._ask)
        if ask.expand or ask.nodes != last.nodes or len(ask.among) != len(ask.nodes):
            raise Code.BAD_ASK.error(
                expected="the nodes of the round before, with candidates each",
                found=f"{len(ask.nodes)} nodes",
            )
        n, most = len(self.plan.candidates), self.plan.n_owners
        for some in ask.among:
            if not 1 <= len(some) <= most or list(some) != sorted(set(some)) or some[-1] >= n:
                raise Code.BAD_ASK.error(
                    expected=f"1 to {most} different candidates of each node, in order",
                    found=f"{len(some)}",
                )

    def state(self) -> bytes:
        """Return what to keep between questions: public numbers and the last answer."""
        head = {
            "hedgerow": "topdown owner",
            "version": 1,
            "plan": self.plan.digest,
            "name": self.name,
            "round": self._round,
            "phase": self._phase,
            "splits": [list(pair) for pair in self.shape.splits],
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        ask, answer = base64.b64encode(self._ask), base64.b64encode(self._answer)
        # Long ones, which nothing needs to escape.
        return b'%b,"ask":"%b","answer":"%b"}' % (text[:-1], ask, answer)

    @classmethod
    def resume(
        cls,
        table: Encoded | LeafCounts,
        plan: TopDownPlan,
        state: bytes,
        *,
        name: str,
        source: NoiseSource,
        **more: Any,
    ) -> Self:
        """Go on from `state`, which was charged; `more` are further parameters of a kind of owner.

        H820 for a state that is damaged, of another plan or of another owner.
        """
        data = _read(state)
        if data["plan"] != plan.digest or data["name"] != name:
            raise Code.BAD_ASK.error(
                expected=f"the state of owner {name!r} in the plan {plan.digest[:16]}",
                found="that of another owner or plan",
                fix="pass the state that this owner wrote in this run",
            )
        self = cls(table, plan, name=name, source=source, **more)
        for pair in data["splits"]:
            self.shape.check([pair])
            self.shape.expand([pair])
            self.counts.split([pair[0]], [pair[1]])
        self._round, self._phase = data["round"], data["phase"]
        self._ask, self._answer = data["ask"], data["answer"]
        return self


def charge_plan(
    plan: TopDownPlan, ledger: Ledger, source: NoiseSource, *, joint: bool = False
) -> None:
    """Charge the worst case of a plan, of one owner or, `joint`, of all owners together.

    The ledger is marked as not private if the noise is seeded or there is none.
    """
    if not plan.domain.is_public and not ledger.not_private and plan.is_private:
        raise Code.DOMAIN_READ_FROM_DATA.error(found=f"provenance {plan.domain.provenance!r}")
    if not plan.is_private:
        ledger.mark_not_private("there is no noise")
    elif not source.private:
        ledger.mark_not_private("the noise was seeded")
    ledger.charge(*plan.releases(joint=joint))


def counts_of(table: Encoded | LeafCounts, plan: TopDownPlan) -> LeafCounts:
    """Return the counts of a table of the plan's domain; raises H117 or H112 for another."""
    if isinstance(table, Encoded):
        table.check_domain(plan.domain)
        table = LeafCounts(table, plan.candidates)
    else:
        # Growth rearranges it, and somebody else may grow another tree from the same table.
        table = table.after([], [])
    if plan.capacity is not None:
        check_capacity(table.n_records, plan.capacity)
    return table


def _read(state: bytes) -> dict[str, Any]:
    try:
        data = json.loads(state)
        if set(data) != _STATE_FIELDS or data["hedgerow"] != "topdown owner":
            raise ValueError("another file")
        data["splits"] = [(int(a), int(b)) for a, b in data["splits"]]
        if not (isinstance(data["round"], int) and isinstance(data["phase"], str)):
            raise TypeError("round and phase")
        data["ask"] = base64.b64decode(data["ask"], validate=True)
        data["answer"] = base64.b64decode(data["answer"], validate=True)
    except (ValueError, TypeError, KeyError):
        raise Code.BAD_ASK.error(
            expected="the state that this owner wrote",
            found="other bytes",
            fix="restore the state from a backup; without it this owner cannot go on in this run, "
            "because it cannot know what it has answered",
        ) from None
    return dict(data)


class SecureOwner(Owner):
    """An owner with its table, in method "secure-counts"; the source is of shares and seals alone.

    The `server_keys`, in the order of the servers, must be authentic: taken from the job that all
    parties have agreed on, or heard from the servers themselves. Whoever could put two keys of its
    own in their place would read the counts. Errors as `Owner`, and H760 for keys that are not
    three different ones.

    Reveals: nothing by itself. Once the servers have added noise, what the plan's releases list, to
    the public.
    Cost: `hedgerow.protocols.topdown.wire.sealed_sizes` for each answer.
    """

    def __init__(
        self,
        table: Encoded | LeafCounts,
        plan: TopDownPlan,
        *,
        name: str,
        source: NoiseSource,
        ledger: Ledger | None = None,
        server_keys: Sequence[bytes],
    ) -> None:
        self._splits = SecureSplits(plan)
        self.server_keys = _check_keys(server_keys)
        super().__init__(table, plan, name=name, source=source, ledger=ledger)

    def _check(self, ask: Ask) -> None:
        due = 0 if self._round < 0 else self._round + _ROUNDS
        if self._round < ask.round != due:
            raise Code.BAD_ASK.error(expected=f"round {due}", found=f"round {ask.round}")
        super()._check(replace(ask, round=self._round + 1) if ask.round == due else ask)

    def _draw(self, ask: Ask, shape: TreeShape, table: LeafCounts) -> Arrays:
        nodes = np.asarray(ask.nodes, dtype=np.int64)
        if ask.phase == "leaves":
            counts = table.class_counts(nodes)
        else:
            counts = table.histogram(nodes).transpose(0, 2, 1)
        expected, ring = self._splits.shared_array(ask.phase, len(nodes))
        assert counts.shape == expected
        keys = self.server_keys
        return seal_parts(counts, ring, ask, shape.splits, self.name, keys, self._entropy)

    def _entropy(self, n: int) -> bytes:
        return self.source.bytes(n).tobytes()


def _check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    found = tuple(bytes(key) for key in keys)
    if len(set(found)) != SERVERS or any(len(key) != KEY_BYTES for key in found):
        raise Code.SEALED_REFUSED.error(
            expected=f"{SERVERS} different public keys of {KEY_BYTES} bytes, one for each server",
            found=f"{len(set(found))} keys",
            fix="pass server_keys= as the servers have published them",
        )
    return found
