"""One call of every primitive, to be made where it must be refused."""

from inspect import isfunction
from typing import Any

import numpy as np

from hedgerow.secure.ring import Z32, Z64
from hedgerow.secure.secret import Engine, Permutation, Silent

NOT_CALLED = {"finish", "prepare", "cost"}
"""Methods that touch no share."""


def calls(engine: Engine) -> list[tuple[str, list[Any]]]:
    """Names of primitives with arguments that the engine would take."""
    numbers, ones = np.arange(4).reshape(2, 2), np.ones((2, 2), dtype=np.bool_)
    x, b, p = engine.public(numbers, Z64), engine.public_bits(ones), engine.permutation(2)
    found: list[tuple[str, list[Any]]] = [
        ("public", [numbers, Z64]),
        ("public_bits", [ones]),
        ("add_public", [x, Z64.encode(numbers)]),
        ("xor_public", [b, ones]),
        ("local_matmul", [x.data, x.data]),
        ("reduce", [x, Z32]),
        ("input", [numbers, 0, (2, 2), Z64]),
        ("input_bits", [ones, 0, (2, 2)]),
        ("open", [x, "seen", engine.everyone]),
        ("open", [b, "seen", engine.everyone]),
        ("open_to_all", [x, "seen"]),
        ("open_to_all", [b, "seen"]),
        ("mul", [x, x]),
        ("matmul", [x, x]),
        ("and_", [b, b]),
        ("random_bits", [(2, 2)]),
        ("addends", [x, 64]),
        ("b2a", [b, Z32]),
        ("mul_bits", [x, b]),
        ("extend", [x, Z64]),
        ("truncate", [x, 0]),
        ("truncate", [x, 3]),
        ("permutation", [2]),
        ("shuffle", [x, p]),
        ("shuffle", [b, p]),
        ("unshuffle", [x, p]),
        ("unshuffle", [b, p]),
    ]
    public = {name for name, of in vars(Engine).items() if isfunction(of) and name[0] != "_"}
    assert {name for name, _ in found} | NOT_CALLED == public
    return found


def mixed_calls(engine: Engine, other: Engine) -> list[tuple[str, list[Any]]]:
    """Calls in which one secret or permutation is of another engine, in every place it can be."""
    found = []
    for (name, mine), (_, its) in zip(calls(engine), calls(other), strict=True):
        for at, value in enumerate(its):
            if isinstance(value, (Silent, Permutation)):
                found.append((name, [*mine[:at], value, *mine[at + 1 :]]))
    return found
