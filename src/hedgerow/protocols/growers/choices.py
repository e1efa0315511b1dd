"""How a split is chosen from secret scores: the best, a noisy one, or one that nobody chose.

All choosers work on all nodes of a level and all trees at once and return one-hot vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.privacy import EACH, ROOT, By, NoisyMax, Partition, Scope, part, step
from hedgerow.protocols.growers.layout import as_one_hot
from hedgerow.protocols.public_choices import public_subset, public_words
from hedgerow.secure.argmax import argmax
from hedgerow.secure.compare import cost_less_than, less_than
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.noise.discrete import precision
from hedgerow.secure.noise.paper import exponential
from hedgerow.secure.noise.releases import Charge, Payer, noisy_max
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, Secret, stack

Valid = Secret | NDArray[np.bool_] | None

NODES = Partition("nodes", By.ATTRIBUTES)
TREES = Partition("trees", By.SLOT)

HIDDEN = "hidden"
"""Where the public coins of hidden trees begin."""


class SplitChooser(Protocol):
    """Chooses the splits of one level."""

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose among C candidates by signed scores (trees, nodes, C) up to `bound` in magnitude.

        A secret `valid` is over the ring of earlier choices. Returns one-hot vectors of the same
        shape, over a ring of the chooser's liking.
        """
        ...


class BestSplits:
    """The highest score wins, of equal ones the lowest index (algorithm 1, steps 14 to 16)."""

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`.

        The paper's step 14 multiplies scores with R, so that a used attribute wins when all scores
        are 0; here it is (score + bound + 1) R, which is positive for whatever may be chosen.
        """
        ring = fitting_ring(scores.ring, 2 * bound + 1)
        z = widen(scores, ring, bound) + (bound + 1)
        if valid is not None:
            z = z * in_ring(valid, ring)
        return argmax(z, bits=(2 * bound + 1).bit_length() + 1)


@dataclass(frozen=True)
class Noisy:
    """Noisy max with one-sided geometric noise: a release in each node of a level.

    The sensitivity is that of the integer scores; the ledger is charged before noise is drawn.
    """

    mechanism: NoisyMax
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = field(default=ROOT)

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`."""
        ring = self.ring(scores.ring, scores.shape[-1], bound)
        charge = level_charge(self.ledger, self.scope, self.audience, level)
        flat = widen(scores, ring, bound).reshape(-1, scores.shape[-1])
        allowed: Any = None
        if valid is not None:
            known = in_ring(valid, ring)
            allowed = known.reshape(*flat.shape)
        chosen = noisy_max(flat, self.mechanism, charge, bound=bound, valid=allowed)
        return chosen.reshape(*scores.shape)

    def ring(self, least: Ring, candidates: int, bound: int) -> Ring:
        """Return the ring in which scores and noise are added."""
        drawn = precision(self.mechanism, candidates)
        return fitting_ring(least, 2 * bound + (1 << drawn.variable.length) + 1)


@dataclass(frozen=True)
class Exponential:
    """The paper's approximate exponential mechanism (algorithm 13): no finite epsilon.

    `epsilon` is the paper's, of one choice.
    """

    epsilon: float
    sensitivity: int
    ledger: Payer
    audience: str = "analyst"
    scope: Scope = field(default=ROOT)

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`. What may not be chosen gets the lowest possible score."""
        wide = widen(scores, Z64, bound)
        reach = bound
        if valid is not None:
            # Below every valid score by more than the clip reaches.
            reach = bound + 1 + int(np.ceil(12 * self.sensitivity / self.epsilon))
            wide = (wide + bound + reach) * in_ring(valid, Z64) - (bound + reach)
            reach += bound
        charge = level_charge(self.ledger, self.scope, self.audience, level)
        flat = wide.reshape(-1, scores.shape[-1])
        chosen = exponential(flat, self.epsilon, self.sensitivity, charge, bound=reach)
        return chosen.reshape(*scores.shape)


@dataclass(frozen=True)
class RandomSplits:
    """Extra trees: splits drawn by public coins, known to everybody, whatever the scores are.

    The seed is the same at all parties; every level has coins of its own below `address`.
    """

    public_seed: int
    address: str = HIDDEN

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`."""
        return scores.engine.public(self.draw(level, scores.shape, valid), scores.ring)

    def draw(self, level: int, shape: tuple[int, ...], valid: Valid) -> NDArray[np.uint8]:
        """Choose without scores: public one-hot vectors, (trees, nodes, C)."""
        if isinstance(valid, Secret):
            raise Code.BAD_PARAMETER.error(
                expected="a public choice from public candidates", found="secret candidates"
            )
        words = public_words(self.public_seed, f"{self.address}/splits/{level}", shape)
        # Odd, so that whatever is valid stands above the 0 of what is not.
        keys = words | np.uint64(1)
        if valid is not None:
            keys = np.where(valid, keys, np.uint64(0))
        return as_one_hot(keys.argmax(axis=-1), shape[-1])


@dataclass
class OpenedSplits:
    """Splits that everybody sees: the choices of another chooser, opened level by level.

    `name` has the name of the opening of each level. `opened` are the candidates of all levels so
    far, (trees, nodes) each.
    """

    choose: SplitChooser
    name: Callable[[int], str]
    opened: list[NDArray[np.int64]] = field(default_factory=list)

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`."""
        return self.choose(level, scores, bound, valid)

    def open(self, level: int, choice: Secret) -> NDArray[np.uint8]:
        """Open one-hot choices (trees, nodes, C) to all parties; H704 for what is no choice.

        Reveals: the candidate of each node, to everyone.
        """
        engine, each = choice.engine, choice.shape[-1]
        wide = engine.extend(choice, fitting_ring(choice.ring, each))
        found = engine.open_to_all((wide * np.arange(each)).sum(-1), self.name(level))
        index = found.astype(np.int64)
        check_shares(self.name(level), index < each)
        self.opened.append(index)
        return as_one_hot(index, each)


def check_shares(name: str, possible: NDArray[np.bool_]) -> None:
    """Refuse opened numbers that nothing can be, H704: shares kept of different attempts."""
    if not possible.all():
        raise Code.SHARES_DIFFER.error(
            expected=f"shares of one attempt at {name!r} from all peers",
            found=f"{int(np.sum(~possible))} of {possible.size} numbers that mean nothing",
        )


@dataclass(frozen=True)
class Restricted:
    """Random forests: every node chooses from a few attributes, drawn by public coins.

    `max_features` attributes are drawn for each node, of those that have a candidate. The seed is
    the same at all parties, with coins below `address`; what was drawn is known to everybody.
    """

    choose: SplitChooser
    feature: NDArray[Any]
    max_features: int
    public_seed: int
    address: str = HIDDEN

    def __call__(self, level: int, scores: Secret, bound: int, valid: Valid) -> Secret:
        """Choose. See `SplitChooser`."""
        if valid is not None:
            raise Code.BAD_PARAMETER.error(
                expected="attributes drawn anew in every node", found="candidates of the path"
            )
        return self.choose(level, scores, bound, self.draw(level, scores.shape[:-1]))

    def draw(self, level: int, nodes: tuple[int, ...]) -> NDArray[np.bool_]:
        """Draw the candidates of each node, (trees, nodes, C)."""
        owners, place = np.unique(self.feature, return_inverse=True)
        address, shape = f"{self.address}/attributes/{level}", (*nodes, owners.size)
        return public_subset(self.public_seed, address, shape, self.max_features)[..., place]


def level_charge(ledger: Payer, scope: Scope, audience: str, level: int) -> Charge:
    """Return who pays for the splits of a level: one choice in each node."""
    where = scope / step(f"level {level}") / part(NODES, EACH)
    return Charge(ledger, where, audience, split_reason(level))


def split_reason(level: int) -> str:
    """Return the reason of the release of a level's splits."""
    return f"split of each node at level {level}"


def fitting_ring(least: Ring, largest: int) -> Ring:
    """Return the smallest ring, at least the given one, for numbers from 0 to `largest`."""
    for ring in (Z16, Z32, Z64):
        if ring.bits >= least.bits and largest < 1 << (ring.bits - 1):
            return ring
    raise Code.BAD_PARAMETER.error(
        expected=f"scores and noise below 2**{Z64.bits - 1}, in Z_2^{Z64.bits}",
        found=f"numbers up to about 2**{largest.bit_length()}",
        fix="choose a larger epsilon or criterion='max'",
    )


def widen(x: Secret, ring: Ring, bound: int) -> Secret:
    """Return signed numbers of magnitude up to `bound` over a larger ring."""
    if ring == x.ring:
        return x
    half = 1 << (x.ring.bits - 1)
    if 2 * bound < half:
        return x.engine.extend(x + bound, ring) - bound
    # With an offset they would not fit into the lower half, from which alone numbers are lifted.
    negative = less_than(x, 0)
    both = x.engine.extend(stack([x + negative * half, negative]), ring)
    return both[0] - both[1] * half


def cost_widen(
    engine: Engine, shape: tuple[int, ...], source: Ring, ring: Ring, bound: int
) -> Cost:
    """State the cost of `widen` from a ring to another."""
    if ring == source:
        return NOTHING
    if 2 * bound < 1 << (source.bits - 1):
        return engine.cost("extend", shape=shape, ring=ring, source=source)
    both = engine.cost("extend", shape=(2, *shape), ring=ring, source=source)
    return cost_less_than(engine, prod(shape), source) + both


def in_ring(valid: Secret | NDArray[np.bool_], ring: Ring) -> Any:
    """Return 0 and 1 over a ring."""
    if not isinstance(valid, Secret):
        return valid
    if valid.ring.bits > ring.bits:
        return valid.engine.reduce(valid, ring)
    return valid.engine.extend(valid, ring)
