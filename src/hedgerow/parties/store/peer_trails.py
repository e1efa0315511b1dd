"""What a party remembers of the trails of others: a state that was set back or copied is missed.

Parties that meet about a run tell each other how long their trails are (`TrailClaim`). Each keeps
the longest that it has seen of every other one, and asks it for its hash at that height: who has
fewer entries has an older state, and who has another hash there goes on with a copy beside the
original. Both are refused, H936, until the newest state is back or the operator of the party that
remembers forgets it (`forget_peer`). One that is asked about a run which it has forgotten hears
from the question how much the other has seen of it, and says so itself.

What is remembered becomes durable with changes of runs, without a commit of its own for a question.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field, Strict

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered
from hedgerow.parties.store.database import Store, Transaction

FORGET = "forget peer"
_RECENT = 4

Height = Annotated[int, Strict(), Field(ge=0, lt=1 << 53)]
TrailHash = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]


class TrailMark(NamedTuple):
    """A number of entries, and the hash of the last of them."""

    height: int
    hash: str


class TrailClaim(Numbered):
    """What a party says of its trail: `height` entries, the last of this `hash`.

    `seen`: how many entries it remembers of the one it speaks to. `shown`: its own hash at entry
    `at`, which is how many the other one remembers of it; empty if it has none there.
    """

    code: ClassVar[Code] = Code.BAD_REPLY

    height: Height
    hash: TrailHash
    seen: Height = 0
    at: Height = 0
    shown: TrailHash = ""


class TrailQuestion(NamedTuple):
    """What is claimed towards another party, and what was remembered of it at that time."""

    claim: TrailClaim
    mark: TrailMark | None


class PeerTrails:
    """What is known of the trails of other parties, by name; for all threads.

    Cost: one read of the store for a meeting.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.Lock()
        self._asked: dict[str, int] = {}
        self._noted: dict[str, TrailMark] = {}
        self._recent: dict[str, deque[TrailMark]] = {}

    def question(self, name: str) -> TrailQuestion:
        """Return what to send to another party."""
        with self._lock:
            at = self._asked.get(name, 0)
        with self._store.snapshot() as made:
            mark = self._mark(made, name)
            return TrailQuestion(_claim(made, mark, at), mark)

    def hear(self, name: str, question: TrailQuestion, reply: TrailClaim) -> bool:
        """Take the reply to a question, or refuse it: H936; whether the question showed enough.

        It did not if the other one remembers another height than the one that was shown to it.
        """
        # What was remembered when the question was put: replies may cross each other.
        mark = question.mark
        if mark is not None:
            self._check(name, mark, reply, proven=(reply.at, reply.shown) == mark)
        with self._lock:
            self._asked[name] = reply.seen
            self._noted[name] = TrailMark(reply.height, reply.hash)
        return reply.seen == question.claim.at

    def meet(self, name: str, claim: TrailClaim) -> TrailClaim:
        """Answer a party that tells of its trail, or refuse it: H936.

        One that has not shown its hash yet hears at which height it has to.
        """
        with self._store.snapshot() as made:
            mark = self._mark(made, name)
            if mark is not None:
                unasked = claim.at != mark.height
                self._check(name, mark, claim, proven=unasked or claim.shown == mark.hash)
            self._take(name, mark, claim)
            return _claim(made, mark, claim.seen)

    def check_own(self, me: str, claim: TrailClaim) -> None:
        """Refuse, H936, to answer as a party of which the caller has seen more than is here."""
        with self._store.snapshot() as made:
            height, _ = made.head()
        if claim.seen > height:
            raise _set_back(me, f"entry {claim.seen}", f"{height} entries")

    def check(self, name: str, claim: TrailClaim) -> None:
        """Refuse, H936, a party that does not show what is, or was a moment ago, remembered."""
        with self._store.snapshot() as made:
            mark = self._mark(made, name)
        if mark is not None:
            with self._lock:
                marks = list(self._recent[name])
            shown = ((claim.at, claim.shown), (claim.height, claim.hash))
            known = next((one for one in marks if one in shown), None)
            self._check(name, known or mark, claim, proven=known is not None)
        self._take(name, None, claim)

    def reply(self, name: str, claim: TrailClaim) -> TrailClaim:
        """Return what to tell a party that has passed `check`, as things are now."""
        with self._store.snapshot() as made:
            return _claim(made, self._mark(made, name), claim.seen)

    def write(self, made: Transaction) -> None:
        """Remember what was noted since, with whatever else this transaction writes."""
        with self._lock:
            noted, self._noted = self._noted, {}
        for name, mark in noted.items():
            known = _remembered(made, name)
            if known is None or mark.height > known.height:
                made.put("peers", {"name": name, **mark._asdict()})

    def _mark(self, made: Transaction, name: str) -> TrailMark | None:
        mark = _remembered(made, name)
        if mark is None:
            return None
        with self._lock:
            recent = self._recent.setdefault(name, deque(maxlen=_RECENT))
            if mark not in recent:
                recent.append(mark)
        return mark

    def _take(self, name: str, mark: TrailMark | None, claim: TrailClaim) -> None:
        """Note a claim that has passed, if it has shown what it had to."""
        with self._lock:
            self._asked[name] = claim.seen
            if mark is None or claim.at == mark.height:
                self._noted[name] = TrailMark(claim.height, claim.hash)

    def _check(self, name: str, mark: TrailMark, claim: TrailClaim, *, proven: bool) -> None:
        same = claim.height > mark.height or claim.hash == mark.hash
        if claim.height >= mark.height and same and proven:
            return
        with self._lock:
            self._noted.pop(name, None)
        entry = f"entry {mark.height} of hash {mark.hash[:16]}"
        if claim.height < mark.height:
            raise _set_back(name, entry, f"{claim.height} entries")
        raise _set_back(name, entry, f"{claim.height} entries, and another hash or none there")


def forget_peer(store: Store, name: str) -> bool:
    """Forget how long the trail of another party was, and tell that; whether anything was known."""
    with store.transaction("forget a peer") as made:
        mark = _remembered(made, name)
        if mark is None:
            return False
        made.drop("peers", name=name)
        made.tell(FORGET, {"peer": name, **mark._asdict()})
        return True


def _remembered(made: Transaction, name: str) -> TrailMark | None:
    row = made.row("peers", name=name)
    return None if row is None else TrailMark(row["height"], row["hash"])


def _claim(made: Transaction, mark: TrailMark | None, at: int) -> TrailClaim:
    """Claim one's own trail towards a party of which this is remembered, with the hash at `at`."""
    height, hash_ = made.head()
    return TrailClaim(
        height=height,
        hash=hash_,
        seen=0 if mark is None else mark.height,
        at=at,
        shown=made.hash_at(at),
    )


def _set_back(name: str, entry: str, found: str) -> HedgerowError:
    return Code.STATE_SET_BACK.error(
        expected=f"the trail of {name} with {entry}",
        found=f"{name} with {found}",
        fix=f"put the newest state of {name} back, and let no copy of it go on; if it is lost, "
        "lower budgets by what it has forgotten, and let the operator of every party that "
        f"remembers it run `hedgerow trail forget {name}`",
    )
