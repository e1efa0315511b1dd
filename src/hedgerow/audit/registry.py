"""Targets of every room, by name.

A room that owns something with a privacy claim writes a module whose functions are decorated with
`register`. This room cannot import the rooms above it, so the caller names their modules::

    registry.load(["hedgerow.audit.catalogue.curated"])
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from hedgerow.audit.engine import Target
from hedgerow.errors import Code

Factory = Callable[[], Iterable[Target]]

BUILT_IN = (
    "hedgerow.audit.catalogue.mechanisms",
    "hedgerow.audit.catalogue.broken",
)

_factories: dict[str, Factory] = {}


def register(factory: Factory) -> Factory:
    """Add the targets that `factory` makes; use as a decorator.

    Parameters
    ----------
    factory : callable
        Takes nothing and returns targets. Called when targets are listed, not when registered,
        so that importing a module stays cheap. Registering the same function again replaces it.
    """
    _factories[f"{factory.__module__}.{factory.__qualname__}"] = factory
    return factory


def load(modules: Iterable[str] = ()) -> None:
    """Import modules that register targets: the built-in ones, and those named.

    Parameters
    ----------
    modules : iterable of str
        Dotted names, such as ``"hedgerow.audit.catalogue.curated"``.
    """
    for module in (*BUILT_IN, *modules):
        importlib.import_module(module)


def targets(*, kind: str | None = None, sound: bool | None = None) -> tuple[Target, ...]:
    """List registered targets in the order of registration.

    Parameters
    ----------
    kind : {"mechanism", "estimator", "protocol"} or None
        Only these.
    sound : bool or None
        Only those expected to hold, or only those broken on purpose.
    """
    load()
    found = [target for factory in _factories.values() for target in factory()]
    names = [target.name for target in found]
    for name in names:
        if names.count(name) > 1:
            raise Code.BAD_AUDIT.error(
                found=f"two targets named {name!r}",
                expected="every target name once",
                fix="rename one of them",
            )
    return tuple(
        target for target in found if kind in (None, target.kind) and sound in (None, target.sound)
    )


def lookup(name: str) -> Target:
    """Find a target by name.

    Raises
    ------
    InputError
        `Code.UNKNOWN_TARGET`.
    """
    known = {target.name: target for target in targets()}
    if name not in known:
        raise Code.UNKNOWN_TARGET.error(
            found=repr(name), expected=f"one of {', '.join(sorted(known))}"
        )
    return known[name]
