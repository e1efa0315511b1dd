"""Correlated randomness: what products of additive shares use up, made before inputs are known.

Everything comes from one `Provider`: triples a b = c over rings, on words of bits and of matrices,
and bits that are shared both as XORs and in a ring. Items of a kind are numbered as they are made;
an item is given out once, in order, and forgotten. A second use of one shows a difference of what
it hid, so a number that was given out is refused (H750). A stock can be moved to one other engine
of the same peers (`unload`, `load`): whoever keeps it in between has to load it once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.secure.additive.core import PeerCore
from hedgerow.secure.additive.shuffle import Pair, Translation
from hedgerow.secure.cost import NOTHING, Cost
from hedgerow.secure.orders import JointPermutation
from hedgerow.secure.ring import Ring

Array = NDArray[Any]
Items = tuple[Array, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of correlated randomness, and what an item of it is.

    - ``triples``: a, b, c = a b of a ring,
    - ``and``: 64 triples of bits, as words,
    - ``matrices``: a (m, k), b (k, n), c = a b (m, n) of a ring,
    - ``dabits``: a bit r shared as XOR (uint8), and r in a ring.
    """

    name: Literal["triples", "and", "matrices", "dabits"]
    ring: Ring | None = None
    shape: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        bits = "" if self.ring is None else f" {self.ring.bits}"
        return self.name + bits + ("" if self.shape is None else " {}x{}x{}".format(*self.shape))

    @classmethod
    def read(cls, text: str) -> Kind:
        """Read what `str` wrote."""
        name, bits, shape, *_ = [*text.split(" "), "", ""]
        m, k, n = map(int, shape.split("x")) if shape else (0, 0, 0)
        # A name that there is not makes nothing that anybody takes.
        return cls(
            name,  # type: ignore[arg-type]
            Ring(int(bits)) if bits else None,
            (m, k, n) if shape else None,
        )


AND = Kind("and")


class Provider(ABC):
    """Maker and keeper of correlated randomness for the peers that live here."""

    def __init__(self, core: PeerCore) -> None:
        self.core = core
        self._stock: dict[Kind, Items] = {}
        self._given: dict[Kind, int] = {}

    def __reduce__(self) -> NoReturn:
        raise Code.SECRET_IN_THE_OPEN.error(
            expected="correlated randomness in one place",
            found="a copy, which would not know what was used",
            fix="make a new engine",
        )

    def given(self, kind: Kind) -> int:
        """Return how many items of a kind were given out: the number of the next."""
        return self._given.get(kind, 0)

    def take(self, kind: Kind, first: int, n: int) -> Items:
        """Return items first, ..., first + n - 1 of a kind: arrays (peers here, n, ...).

        What is not in stock is made: `cost`. All peers ask for the same items in the same order.
        """
        if first != self.given(kind):
            raise Code.ADDRESS_USED_TWICE.error(
                expected=f"item {self.given(kind)} of {kind}, the next one",
                found=f"item {first}",
                fix="take every item once, in order",
            )
        there = self._in_stock(kind)
        if there < n:
            self._add(kind, n - there)
        stock = self._stock.pop(kind)
        self._given[kind] = first + n
        if stock[0].shape[1] > n:
            self._stock[kind] = tuple(array[:, n:] for array in stock)
        return tuple(array[:, :n] for array in stock)

    def prepare(self, demand: Mapping[Any, int]) -> None:
        """Make all that a demand asks for and stock does not have, each kind at once."""
        for kind, n in demand.items():
            missing = n - self._in_stock(kind)
            if missing > 0:
                self._add(kind, missing)

    def unload(self) -> dict[str, Array]:
        """Take all that is in stock out of this engine, by kind and part, for `load`."""
        stock, self._stock = self._stock, {}
        for kind, items in stock.items():
            # Numbers of what is gone are not used again.
            self._given[kind] = self.given(kind) + items[0].shape[1]
        return {
            f"{kind}/{part}": array
            for kind, items in stock.items()
            for part, array in enumerate(items)
        }

    def load(self, stock: Mapping[str, Array]) -> None:
        """Take in what another engine of the same peers has unloaded, all of it and once."""
        parts: dict[Kind, list[Array]] = {}
        for name, array in stock.items():
            parts.setdefault(Kind.read(name.rpartition("/")[0]), []).append(array)
        for kind, items in parts.items():
            self._put(kind, tuple(items))

    def cost_prepare(self, demand: Mapping[Any, int]) -> Cost:
        """State the cost of `prepare` where nothing is in stock."""
        return sum((self.cost(kind, n) for kind, n in demand.items()), NOTHING)

    @abstractmethod
    def cost(self, kind: Kind, n: int) -> Cost:
        """State the cost of making n items at once, as preprocessing, with the demand."""

    @abstractmethod
    def cost_translations(self, n: int, width: int, ring: Ring | None) -> Cost:
        """State the cost of `translations`, as preprocessing."""

    @abstractmethod
    def translations(
        self, by: JointPermutation, width: int, ring: Ring | None, *, inverse: bool
    ) -> dict[Pair, Translation]:
        """Make one translation of rows of a width for every ordered pair; used once, as all is.

        Without a ring, rows are words of bits, and sums are XORs. Translations belong to a
        permutation, so they are not kept in stock.
        """

    @abstractmethod
    def make(self, kind: Kind, first: int, n: int) -> Items:
        """Make items first, ..., first + n - 1 of a kind, n at least 1."""

    def _in_stock(self, kind: Kind) -> int:
        return self._stock[kind][0].shape[1] if kind in self._stock else 0

    def _add(self, kind: Kind, n: int) -> None:
        self._put(kind, self.make(kind, self.given(kind) + self._in_stock(kind), n))

    def _put(self, kind: Kind, made: Items) -> None:
        """Put items behind those in stock."""
        if kind in self._stock:
            pairs = zip(self._stock[kind], made, strict=True)
            made = tuple(np.concatenate(pair, axis=1) for pair in pairs)
        self._stock[kind] = made
