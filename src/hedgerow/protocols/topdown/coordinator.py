"""DP-TopDown: best-first private trees over the records of several owners.

Paper: wang2020topdown, algorithm 1.

1. The plan (`TopDownOptions.plan`) is public, and every owner charges its worst case first.
2. The coordinator asks about the root, then, round by round, about all nodes below leaves that may
   be split (lines 8 to 11): their number of records, and PrivateSplit.
3. Leaves worth splitting go into a queue by weight times worth (lines 12 and 13); the best is split
   next, until there are M splits or none is left (lines 5 to 7).
4. The classes of the leaves are counted (line 14).

Deviations, in strict accounting: scores are weighted by records and never divided by a private
number of them; the worth of a chosen split is paid for; |S| is not known, so the number of records
of the root is estimated too; one question is about many nodes.

Reveals: every answer of every owner, to the coordinator, who is trusted by nobody; the tree with
its noisy leaves, to the public. Both cost what the plan's releases add up to.
Cost: about as many rounds as the tree has levels (twice as many for `LocalRNM`), and one for the
leaves; bytes per node and owner 8 (1 + c), c the cells that the method counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hedgerow.errors import Code
from hedgerow.options import check_option
from hedgerow.protocols.topdown.growth import BestFirstGrowth
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.splits import (
    PrivateSplit,
    Rounds,
    private_split,
)
from hedgerow.protocols.topdown.wire import SERVER_NAMES, Arrays, Ask, TopDownAnswer
from hedgerow.trees.tree import Tree

Dropouts = Literal["go on", "wait"]


@dataclass(frozen=True)
class CoordinatorTraffic:
    """Questions that were answered so far, and bytes as the coordinator sees it."""

    rounds: int
    sent: int
    received: int


class Coordinator:
    """Grows the tree from answers, without a network; see the head of this module.

    Owners have names, in a fixed order, at most ``plan.n_owners`` (H501). A round ends without
    those who were lost, for good, or waits for them (`dropouts`); growth needs `least` owners.
    """

    def __init__(
        self,
        plan: TopDownPlan,
        owners: Sequence[str],
        *,
        dropouts: Dropouts = "go on",
        least: int = 1,
    ) -> None:
        check_option("dropouts", dropouts, Dropouts)
        self.plan, self.dropouts, self.least = plan, dropouts, least
        self.owners = tuple(owners)
        distinct = len(set(self.owners) - set(SERVER_NAMES))
        if distinct != len(self.owners) or not least <= len(self.owners):
            raise Code.BAD_PARAMETER.error(
                expected=f"at least {least} owners with names of their own, none of a server",
                found=f"{', '.join(self.owners) or 'none'}",
            )
        if len(self.owners) > plan.n_owners:
            raise Code.BAD_PARAMETER.error(
                expected=f"at most {plan.n_owners} owners, as planned",
                found=f"{len(self.owners)} owners",
                fix="plan again with n_owners",
            )
        self.lost_owners: list[str] = []
        self._growth = BestFirstGrowth(plan)
        self._split = private_split(plan)
        self.round = 0
        """Number of the question that is open."""
        self._answers: dict[str, tuple[Arrays, bytes]] = {}
        self._sent = self._received = 0
        self._rounds: Rounds | None = None
        self._ask: Ask | None = None
        self._begin_question()

    @property
    def n_splits(self) -> int:
        """Splits made so far."""
        return len(self._growth.made)

    @property
    def present(self) -> tuple[str, ...]:
        """Owners who were not lost."""
        return tuple(name for name in self.owners if name not in self.lost_owners)

    @property
    def split(self) -> PrivateSplit:
        """The implementation of PrivateSplit at work."""
        return self._split

    @property
    def traffic(self) -> CoordinatorTraffic:
        """Rounds and bytes so far."""
        return CoordinatorTraffic(self.round, self._sent, self._received)

    def asks(self) -> dict[str, bytes]:
        """Return who has yet to answer, and what each is asked; nobody when the tree is ready."""
        if self._ask is None:
            return {}
        found: dict[str, bytes] = {}
        common: bytes | None = None
        for name in self._participants():
            if name in self._answers:
                continue
            ask = self._split.to_each(self._ask, name)
            if ask is self._ask:
                # Many owners are asked the same.
                common = found[name] = common or ask.to_bytes()
            else:
                found[name] = ask.to_bytes()
        return found

    def hear(self, name: str, answer: bytes) -> None:
        """Take an answer, or stand where it stood; H822 for one that cannot be read.

        H823 from somebody who is not asked or has answered, or about another question.
        """
        if self._ask is None or name not in self._participants():
            raise Code.UNEXPECTED_ANSWER.error(found=f"an answer of {name!r}, who is not asked")
        if name in self._answers:
            if self._answers[name][1] == answer:
                return
            raise Code.UNEXPECTED_ANSWER.error(
                found=f"a second, different answer of {name!r} in round {self.round}"
            )
        arrays = self._read(name, answer)
        self._answers[name] = arrays, bytes(answer)
        self._received += len(answer)
        self._end_round()

    def drop(self, name: str) -> None:
        """Hear that somebody does not answer; H824 if it is needed, or too few are left."""
        if name not in self.owners:
            if name in self._participants():
                self.ask_again()
                raise Code.TOO_FEW_OWNERS.error(
                    expected=f"an answer of {name!r}, without whom nothing can be released",
                    found="none",
                )
            return
        if self.dropouts == "wait" or name in self.lost_owners:
            return
        if len(self.present) - 1 < self.least:
            raise Code.TOO_FEW_OWNERS.error(
                expected=f"at least {self.least} owners", found=f"{len(self.present) - 1}"
            )
        self.lost_owners.append(name)
        # Its answer of this round, if it gave one, still counts.
        self._end_round()

    def together(self) -> tuple[str, ...]:
        """Return who of those that are asked now can only answer together: servers, or nobody."""
        if self._ask is None:
            return ()
        return tuple(name for name in self._participants() if name not in self.owners)

    def ask_again(self) -> None:
        """Ask all of `together` again, also who has answered: another attempt of servers."""
        for name in self.together():
            self._answers.pop(name, None)

    def tree(self) -> Tree:
        """Return the tree, when nobody has to be asked any more."""
        if self._ask is not None:
            raise Code.BAD_PARAMETER.error(
                expected="a tree whose growth has ended", found=f"one in round {self.round}"
            )
        return self._growth.tree()

    def _participants(self) -> tuple[str, ...]:
        assert self._ask is not None
        here = tuple(
            name for name in self.owners if name not in self.lost_owners or name in self._answers
        )
        return self._split.participants(self._ask, here)

    def _read(self, name: str, message: bytes) -> Arrays:
        assert self._ask is not None
        answer = TopDownAnswer.from_bytes(message)
        if answer.plan != self.plan.digest:
            raise Code.UNEXPECTED_ANSWER.error(
                expected=f"an answer in the plan {self.plan.digest[:16]}",
                found=f"one of {name!r} in the plan {answer.plan[:16]!r}",
                fix="make sure that all parties have the same job and domain",
            )
        if answer.round != self.round:
            raise Code.UNEXPECTED_ANSWER.error(
                expected=f"an answer in round {self.round}",
                found=f"one of {name!r} in round {answer.round}",
            )
        if answer.nodes != self._ask.nodes:
            raise Code.UNEXPECTED_ANSWER.error(
                expected="an answer about the nodes that were asked about",
                found=f"one of {name!r} about others",
            )
        layout = self._split.layout(self._ask)
        arrays = answer.arrays
        for key, shape in layout.items():
            found = arrays.get(key)
            kind = np.uint8 if shape is None else np.int64
            if found is None or found.dtype != kind or (shape is not None and found.shape != shape):
                raise Code.BAD_ANSWER.error(
                    expected=f"{key!r} of shape {shape}",
                    found=f"none of {name!r}" if found is None else f"{found.shape} of {name!r}",
                )
        if set(arrays) != set(layout):
            raise Code.BAD_ANSWER.error(found=f"arrays of {name!r} that were not asked for")
        self._split.check(self._ask, arrays, self._growth.shape)
        return arrays

    def _begin_question(self) -> None:
        question = self._growth.question()
        if question is None:
            self._ask = None
            return
        self._rounds = self._split.rounds(question, self._growth.shape, self.round)
        self._ask = next(self._rounds)
        self._count_asks()

    def _count_asks(self) -> None:
        self._sent += sum(map(len, self.asks().values()))

    def _end_round(self) -> None:
        assert self._ask is not None
        if any(name not in self._answers for name in self._participants()):
            return
        answers = {name: self._answers[name][0] for name in self._participants()}
        try:
            joined = self._split.join(self._ask, answers)
        finally:
            # Answers that cannot be joined are asked for again.
            self._answers = {}
        self.round += 1
        assert self._rounds is not None
        try:
            self._ask = self._rounds.send(joined)
            self._count_asks()
        except StopIteration as end:
            self._growth.hear(end.value)
            self._begin_question()
