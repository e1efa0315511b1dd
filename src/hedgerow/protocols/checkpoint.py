"""Checkpoints: what the servers keep of a training that is not done, so that it can go on.

A stage is saved as shares, which are as secret as the model. A run that goes on loads the stages
that all servers have and draws nothing of them again; masks come from fresh keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from numpy.typing import NDArray

from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret

Stage = dict[str, NDArray[Any]]
Made = Callable[[], Secret]


class Checkpoints(Protocol):
    """Where stages are kept. All servers ask for the same stages in the same order.

    What is going to be opened is in a stage that has the name of its opening.
    """

    def load(self, stage: str) -> Stage | None:
        """Return the arrays of a stage that all servers have, else None."""
        ...

    def save(self, stage: str, arrays: Stage) -> None:
        """Keep the arrays of a stage; durable when it returns."""
        ...

    def mark(self, opening: str) -> None:
        """Make sure that a value is never drawn again, before any share of it leaves."""
        ...


class NoCheckpoints:
    """Keeps nothing: a training that fails begins anew."""

    def load(self, stage: str) -> Stage | None:
        """Return nothing."""
        del stage
        return None

    def save(self, stage: str, arrays: Stage) -> None:
        """Keep nothing."""
        del stage, arrays

    def mark(self, opening: str) -> None:
        """Mark nothing: nobody takes the run up again, so that nothing is drawn twice."""
        del opening


def kept(keep: Checkpoints, stage: str, engine: Engine, name: str, make: Made) -> Secret:
    """Return the secret of a stage that has no other; make and keep it where there is none."""
    known = keep.load(stage)
    if known is not None:
        return restored(engine, known[name])
    made = make()
    keep.save(stage, {name: made.data})
    return made


def restored(engine: Engine, array: NDArray[Any]) -> Secret:
    """Return a secret from saved shares, whose type tells the ring."""
    return Secret(engine, Ring(8 * array.dtype.itemsize), array)
