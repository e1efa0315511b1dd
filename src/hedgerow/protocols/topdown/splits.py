"""PrivateSplit at the coordinator: what to ask, and what the noisy answers come to.

Paper: wang2020topdown, section 3; `SecureCounts` is not in it.

`SingleMachine` (RNM)
    One owner of all records chooses by noisy max over exact scores. The paper also publishes the
    winning noisy value for the same budget; here the value is a release of its own.
`NoisyCounts`
    Every owner sends noisy counts; their sums give every score. One histogram per attribute costs
    d / alpha per count, one per split, as in the paper, abs(H) / alpha.
`LocalRNM`
    Every owner sends its own best split by noisy max; noisy counts of these few decide.
`SecureCounts`
    On shares, so that k owners pay the noise of one curator. The coordinator passes on sealed
    shares, one part for each of three servers, which answer with the released numbers, all with the
    same (`hedgerow.protocols.topdown.secure_splits`).

Weights and labels travel with them, noisy, and added up; so does the noise, except on shares.

Reveals: every answer, to the coordinator, as if to the public. With secret counts that is the
released numbers and sealed bytes; a server sees uniform numbers, and who was left out.
Cost: per owner and node 8 (1 + c) bytes, c the cells that the method counts; with secret counts
about 8 bytes for every class and bin (`wire.sealed_sizes`), and among the servers
`secure_splits.cost_answer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.topdown.answers import WORTH_BITS, groups_of
from hedgerow.protocols.topdown.growth import NodeEstimates, NodeQuestion, TreeShape
from hedgerow.protocols.topdown.plan import TopDownPlan
from hedgerow.protocols.topdown.scores import best_branches, decrease, first_branches, totals
from hedgerow.protocols.topdown.secure_splits import LEFT_OUT, USED, SecureSplits
from hedgerow.protocols.topdown.wire import (
    OF_OWNERS,
    OF_SERVERS,
    SERVER_NAMES,
    Arrays,
    Ask,
    sealed_sizes,
)
from hedgerow.trees.layout import SplitKind

Layout = Mapping[str, tuple[int, ...] | None]
"""Names and shapes that an answer must have; None for bytes of any length."""
Floats = NDArray[np.float64]
Rounds = Generator[Ask, Arrays, NodeEstimates]
_BLOCK = 1 << 21

_CODES = (USED, *(code.value for code in LEFT_OUT))


class PrivateSplit(Protocol):
    """One implementation of PrivateSplit, weights and labels, at the coordinator."""

    def participants(self, ask: Ask, owners: tuple[str, ...]) -> tuple[str, ...]:
        """Who is asked."""

    def layout(self, ask: Ask) -> Layout:
        """Return what an answer must hold."""

    def check(self, ask: Ask, arrays: Arrays, shape: TreeShape) -> None:
        """Raise H822 for numbers that cannot be an answer."""

    def join(self, ask: Ask, answers: Mapping[str, Arrays]) -> Arrays:
        """Make one of the answers of all; the order of the parties is fixed."""

    def to_each(self, ask: Ask, participant: str) -> Ask:
        """Return what one participant is asked."""

    def rounds(self, question: NodeQuestion, shape: TreeShape, first: int) -> Rounds:
        """Ask, hear what was joined, and return what was found; `first` is the next round."""


class NoisyAnswers:
    """Noisy numbers of owners that are added up; what the first three implementations share."""

    def __init__(self, plan: TopDownPlan) -> None:
        self.plan = plan

    def participants(self, ask: Ask, owners: tuple[str, ...]) -> tuple[str, ...]:
        """All owners."""
        return owners

    def to_each(self, ask: Ask, participant: str) -> Ask:
        """Ask all the same."""
        return ask

    def layout(self, ask: Ask) -> Layout:
        """Weights, or class counts of leaves."""
        if ask.phase == "leaves":
            return {"classes": (len(ask.nodes), self.plan.n_classes)}
        return {"weight": (len(ask.nodes),)}

    def check(self, ask: Ask, arrays: Arrays, shape: TreeShape) -> None:
        """Any integer can be a noisy count."""

    def join(self, ask: Ask, answers: Mapping[str, Arrays]) -> Arrays:
        """Add up, and tell how many added."""
        # One after the other: all of them side by side would not fit into a cache.
        first, *others = answers.values()
        summed = {name: array.copy() for name, array in first.items()}
        for each in others:
            for name, total in summed.items():
                total += each[name]
        return summed | {"parties": np.array([len(answers)], dtype=np.int64)}

    def _ask(self, question: NodeQuestion, number: int) -> Ask:
        phase = "leaves" if question.leaves else "nodes"
        return Ask(self.plan.digest, number, phase, question.expand, question.nodes)

    @property
    def _knows_noise(self) -> bool:
        """Whether what noise adds to a decrease is subtracted; the paper does not."""
        return self.plan.is_private and self.plan.accounting == "strict"


class OneRound(NoisyAnswers, ABC):
    """Implementations that hear all they need about a split at once."""

    def rounds(self, question: NodeQuestion, shape: TreeShape, first: int) -> Rounds:
        """One round."""
        ask = self._ask(question, first)
        heard = yield ask
        if question.leaves:
            return leaf_estimates(heard)
        return self._estimate(heard, shape.undecided(question.nodes), shape.depths(question.nodes))

    @abstractmethod
    def _estimate(
        self, heard: Arrays, valid: NDArray[np.bool_], depths: NDArray[np.int64]
    ) -> NodeEstimates:
        """Return what the joined answers come to."""


class SingleMachine(OneRound):
    """The curator's own choice and its worth."""

    def layout(self, ask: Ask) -> Layout:
        """Weight, choice and worth of each node."""
        if ask.phase == "leaves":
            return super().layout(ask)
        m = len(ask.nodes)
        return {"weight": (m,), "choice": (m,), "worth": (m,)}

    def check(self, ask: Ask, arrays: Arrays, shape: TreeShape) -> None:
        """Choices are candidates."""
        if ask.phase != "leaves":
            check_choices(arrays["choice"], len(self.plan.candidates))

    def _estimate(
        self, heard: Arrays, valid: NDArray[np.bool_], depths: NDArray[np.int64]
    ) -> NodeEstimates:
        return node_estimates(self.plan, heard)


class NoisyCounts(OneRound):
    """Noisy histograms of all owners."""

    def layout(self, ask: Ask) -> Layout:
        """Weight and cells of each node."""
        if ask.phase == "leaves":
            return super().layout(ask)
        m, k, those = len(ask.nodes), self.plan.n_classes, self.plan.candidates
        by_split = self.plan.histograms == "split"
        cells = (m, len(those), 2, k) if by_split else (m, those.total_bins, k)
        return {"weight": (m,), "cells": cells}

    def _estimate(
        self, heard: Arrays, valid: NDArray[np.bool_], depths: NDArray[np.int64]
    ) -> NodeEstimates:
        cells, m = heard["cells"], len(heard["weight"])
        each = self._variance(depths, int(heard["parties"][0]))
        choice, worth = np.zeros(m, dtype=np.int64), np.zeros(m)
        step = max(1, _BLOCK // (len(self.plan.candidates) * 2 * self.plan.n_classes))
        for at in range(0, m, step):
            block = slice(at, min(at + step, m))
            gains = self._gains(cells[block], None if each is None else each[block])
            gains = np.where(valid[block], gains, -np.inf)
            choice[block] = np.argmax(gains, axis=1)
            worth[block] = np.max(gains, axis=1)
        return NodeEstimates(heard["weight"].astype(np.float64), choice, worth)

    def _gains(self, cells: NDArray[np.int64], each: Floats | None) -> Floats:
        """Return the decrease by every candidate, float64 (m, candidates)."""
        plan = self.plan
        if plan.histograms == "split":
            first, second = cells[:, :, 0], cells[:, :, 1]
            noise = None if each is None else (np.ones(first.shape[:2]) * each[:, None],) * 2
            return decrease(first, second, plan.criterion, noise)
        if each is None:
            first = first_branches(cells, plan.candidates)
            return decrease(first, totals(cells, plan.candidates) - first, plan.criterion)
        branches = best_branches(cells, plan.candidates)
        noise = branches.variance[0] * each[:, None], branches.variance[1] * each[:, None]
        return decrease(branches.first, branches.second, plan.criterion, noise)

    def _variance(self, depths: NDArray[np.int64], parties: int) -> Floats | None:
        """Return the variance of a count in each node, (m,)."""
        if not self._knows_noise:
            return None
        return np.array([self.plan.counts(int(depth)).variance for depth in depths]) * parties


class LocalRNM(NoisyAnswers):
    """The owners' own choices, of which noisy counts choose one."""

    def layout(self, ask: Ask) -> Layout:
        """Weight and choice of each node, then the cells of all candidates."""
        if ask.phase == "leaves":
            return super().layout(ask)
        if ask.phase == "recount":
            size = sum(len(group) + 1 for some in ask.among for group in groups_of(self.plan, some))
            return {"cells": (size * self.plan.n_classes,)}
        return {"weight": (len(ask.nodes),), "choice": (len(ask.nodes),)}

    def check(self, ask: Ask, arrays: Arrays, shape: TreeShape) -> None:
        """Choices are candidates."""
        if "choice" in arrays:
            check_choices(arrays["choice"], len(self.plan.candidates))

    def join(self, ask: Ask, answers: Mapping[str, Arrays]) -> Arrays:
        """Add up, and list the choices."""
        summed = super().join(ask, answers)
        if ask.phase != "nodes":
            return summed
        return {**summed, "choice": np.stack([each["choice"] for each in answers.values()])}

    def rounds(self, question: NodeQuestion, shape: TreeShape, first: int) -> Rounds:
        """Two rounds: choices, then counts of them."""
        ask = self._ask(question, first)
        heard = yield ask
        if question.leaves:
            return leaf_estimates(heard)
        among = tuple(tuple(np.unique(some).tolist()) for some in heard["choice"].T)
        again = Ask(self.plan.digest, first + 1, "recount", (), question.nodes, among)
        counted = yield again
        cells = counted["cells"].reshape(-1, self.plan.n_classes)
        parties = int(counted["parties"][0])
        choice, worth = self._best(among, cells, shape.depths(question.nodes), parties)
        return NodeEstimates(heard["weight"].astype(np.float64), choice, worth)

    def _best(
        self,
        among: tuple[tuple[int, ...], ...],
        cells: NDArray[np.int64],
        depths: NDArray[np.int64],
        parties: int,
    ) -> tuple[NDArray[np.int64], Floats]:
        """Choose the best of each node's candidates; the lowest of equals."""
        node: list[int] = []
        candidate: list[int] = []
        firsts, seconds = [], []
        variances: list[tuple[float, float]] = []
        at = 0
        for i, some in enumerate(among):
            groups = groups_of(self.plan, some)
            each = 0.0
            if self._knows_noise:
                each = parties * self.plan.recounts(int(depths[i]), len(groups)).variance
            for group in groups:
                mine = cells[at : at + len(group) + 1]
                at += len(mine)
                threshold = self.plan.candidates.kind[group[0]] == SplitKind.THRESHOLD
                first = np.cumsum(mine[:-1], axis=0) if threshold else mine[:-1]
                node += [i] * len(group)
                candidate += group
                firsts.append(first)
                seconds.append(mine.sum(axis=0) - first)
                for j in range(len(group)):
                    held = j + 1 if threshold else 1
                    variances.append((each * held, each * (len(mine) - held)))
        noise = np.array(variances).T if self._knows_noise else None
        gains = decrease(
            np.concatenate(firsts),
            np.concatenate(seconds),
            self.plan.criterion,
            None if noise is None else (noise[0], noise[1]),
        )
        owner, chosen = np.array(node), np.array(candidate, dtype=np.int64)
        best = np.lexsort((chosen, -gains, owner))
        leading = best[np.flatnonzero(np.diff(owner[best], prepend=-1))]
        return chosen[leading], gains[leading]


def node_estimates(plan: TopDownPlan, heard: Arrays) -> NodeEstimates:
    """Turn a released choice and its worth into what growth wants.

    The worth is n times the decrease, on the grid of the scores; as published, the decrease.
    """
    weight = heard["weight"].astype(np.float64)
    if plan.accounting == "paper" and plan.is_private:
        worth = heard["worth"] / 2.0**WORTH_BITS
    else:
        worth = heard["worth"] / 2.0**plan.shift / np.maximum(weight, 1.0)
    return NodeEstimates(weight, heard["choice"], worth)


def leaf_estimates(heard: Arrays) -> NodeEstimates:
    """Return the noisy class counts of leaves."""
    nothing = np.zeros(0)
    counts = heard["classes"].astype(np.float64)
    return NodeEstimates(nothing, nothing.astype(np.int64), nothing, counts)


def check_choices(choice: NDArray[np.int64], n: int) -> None:
    """Raise H822 unless all are candidates."""
    if choice.size and not 0 <= choice.min() <= choice.max() < n:
        raise Code.BAD_ANSWER.error(
            expected=f"candidates from 0 to {n - 1}",
            found=f"{int(choice.min() if choice.min() < 0 else choice.max())}",
        )


class SecureCounts:
    """The coordinator's side of secret counts; `left_out` has (round, owner, error)."""

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

    def check(self, ask: Ask, arrays: Arrays, shape: TreeShape) -> None:
        """Refuse parts of another length than the question asks for, and choices that are none."""
        if ask.phase not in OF_OWNERS:
            sizes = sealed_sizes(*self._splits.shared_array(ask.phase, len(ask.nodes)))
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
        """Collect the parts for each server; of the servers' answers, all equal or H822, one."""
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

    def rounds(self, question: NodeQuestion, shape: TreeShape, first: int) -> Rounds:
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
        return leaf_estimates(heard) if question.leaves else node_estimates(self.plan, heard)

    def _owners(self, ask: Ask) -> list[str]:
        begin = f"{SERVER_NAMES[0]}/"
        return [name.removeprefix(begin) for name in ask.arrays if name.startswith(begin)]


def private_split(plan: TopDownPlan) -> PrivateSplit:
    """Return the implementation of PrivateSplit that a plan names."""
    if plan.method == "secure-counts":
        return SecureCounts(plan)
    made: dict[str, Callable[[TopDownPlan], PrivateSplit]] = {
        "single-machine": SingleMachine,
        "noisy-counts": NoisyCounts,
        "local-rnm": LocalRNM,
    }
    return made[plan.method](plan)
