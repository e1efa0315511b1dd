"""`SecureCounts`: PrivateSplit on shares, so that k owners pay the noise of one curator.

Paper: wang2020topdown, algorithm 1; this implementation of PrivateSplit is not in it.

A question takes two rounds. Owners answer with sealed shares of their counts, one part for each of
three servers; the coordinator passes them on, unread; the servers answer with the released numbers,
all three with the same. These have the law of `SingleMachine` on the union of the tables
(`hedgerow.protocols.topdown.numbers`).

Reveals: to the public, the released numbers; to the coordinator nothing else but sealed bytes; to a
server nothing else but uniform numbers, and who was left out.
Cost: per owner and node about 8 bytes for every class and bin
(`hedgerow.protocols.topdown.parts.sealed_sizes`); among the servers
`hedgerow.protocols.topdown.sums.cost_answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hedgerow.errors import Code
from hedgerow.protocols.topdown.growth import Question
from hedgerow.protocols.topdown.numbers import SecureSplits
from hedgerow.protocols.topdown.parts import (
    OF_OWNERS,
    OF_SERVERS,
    SERVER_NAMES,
    sealed_sizes,
    shared_array,
)
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.shape import Shape
from hedgerow.protocols.topdown.splits import Layout, Rounds, check_choices, labelled, worth_of
from hedgerow.protocols.topdown.sums import LEFT_OUT, USED
from hedgerow.protocols.topdown.wire import Arrays, Ask

_CODES = (USED, *(code.value for code in LEFT_OUT))


class SecureCounts:
    """The coordinator's side.

    Parameters
    ----------
    plan : TopDownPlan

    Attributes
    ----------
    left_out : list of (round, owner, number of the error)
        Owners whose counts the servers could not use.
    """

    def __init__(self, plan: TopDownPlan) -> None:
        self.plan = plan
        self.left_out: list[tuple[int, str, str]] = []
        self._splits = SecureSplits(plan)

    def participants(self, ask: Ask, owners: tuple[str, ...]) -> tuple[str, ...]:
        """Ask the owners, then the servers."""
        return SERVER_NAMES if ask.phase in OF_OWNERS else owners

    def to_each(self, ask: Ask, participant: str) -> Ask:
        """Return the question; to a server only with its own parts, by owner."""
        if ask.phase not in OF_OWNERS:
            return ask
        begin = f"{participant}/"
        mine = {
            name.removeprefix(begin): part
            for name, part in ask.arrays.items()
            if name.startswith(begin)
        }
        return replace(ask, arrays=mine)

    def layout(self, ask: Ask) -> Layout:
        """Expect a sealed part for each server; or numbers, and whose counts are in them."""
        if ask.phase not in OF_OWNERS:
            return dict.fromkeys(SERVER_NAMES)
        m, owners = len(ask.nodes), len(self._owners(ask))
        if OF_OWNERS[ask.phase] == "leaves":
            return {"classes": (m, self.plan.n_classes), "used": (owners,)}
        return {"weight": (m,), "choice": (m,), "worth": (m,), "used": (owners,)}

    def check(self, ask: Ask, arrays: Arrays, shape: Shape) -> None:
        """Refuse parts of another length than the question asks for, and choices that are none."""
        if ask.phase not in OF_OWNERS:
            sizes = sealed_sizes(*shared_array(self._splits, ask.phase, len(ask.nodes)))
            for name, size in sizes.items():
                if arrays[name].shape != (size,):
                    raise Code.BAD_ANSWER.error(
                        expected=f"a part of {size} bytes for {name}",
                        found=f"shape {arrays[name].shape}",
                    )
            return
        if not np.isin(arrays["used"], _CODES).all():
            raise Code.BAD_ANSWER.error(
                expected=f"one of {_CODES} for each owner", found="another number"
            )
        if "choice" in arrays:
            check_choices(arrays["choice"], len(self.plan.candidates))

    def join(self, ask: Ask, answers: Mapping[str, Arrays]) -> Arrays:
        """Collect the parts for each server; of the servers' answers, which are equal, take one.

        Raises
        ------
        HedgerowError
            H822 if they are not equal.
        """
        if ask.phase not in OF_OWNERS:
            return {
                f"{server}/{owner}": parts[server]
                for server in SERVER_NAMES
                for owner, parts in answers.items()
            }
        first = answers[SERVER_NAMES[0]]
        for name in SERVER_NAMES[1:]:
            if any(not np.array_equal(first[key], answers[name][key]) for key in first):
                raise Code.BAD_ANSWER.error(
                    expected="the same numbers from all three servers",
                    found=f"others from {name}",
                    fix="find out which server does not follow the protocol; none of it was used",
                )
        return first

    def rounds(self, question: Question, shape: Shape, first: int) -> Rounds:
        """Ask twice: for parts of the owners, then for numbers of the servers."""
        phase = "leaves" if question.leaves else "nodes"
        ask = Ask(self.plan.digest, first, phase, question.expand, question.nodes)
        parts = yield ask
        pass_on = replace(ask, round=first + 1, phase=OF_SERVERS[phase], arrays=parts)
        heard = yield pass_on
        owners = self._owners(pass_on)
        for owner, number in zip(owners, heard["used"].tolist(), strict=True):
            if number != USED:
                self.left_out.append((first + 1, owner, f"H{number}"))
        return labelled(heard) if question.leaves else worth_of(self.plan, heard)

    def _owners(self, ask: Ask) -> list[str]:
        begin = f"{SERVER_NAMES[0]}/"
        return [name.removeprefix(begin) for name in ask.arrays if name.startswith(begin)]
