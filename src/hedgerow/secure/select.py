"""Choice between two values by a secret condition, without a branch."""

from __future__ import annotations

from hedgerow.secure.compare import Number
from hedgerow.secure.cost import Cost
from hedgerow.secure.ring import Ring
from hedgerow.secure.secret import Engine, Secret


def select(condition: Secret, a: Number, b: Number) -> Secret:
    """Return a where the condition is 1, b where it is 0, over its ring; shapes broadcast.

    1. b + condition (a - b): one multiplication, none if a and b are public.

    Reveals: nothing. Cost: `cost_select`; one `Engine.mul`.
    """
    if not isinstance(a, Secret) and not isinstance(b, Secret):
        a, b = condition.ring.encode(a), condition.ring.encode(b)
    difference = a - b  # type: ignore[operator]
    return condition * difference + b


def cost_select(engine: Engine, shape: tuple[int, ...], ring: Ring) -> Cost:
    """State the cost of `select` for a result of a shape, where a or b is secret."""
    return engine.cost("mul", shape=shape, ring=ring)
