"""Targets by name: all of the catalogue, and those that a user registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from hedgerow.audit.engine import AuditTarget
from hedgerow.errors import Code

Factory = Callable[[], Iterable[AuditTarget]]

_registered: dict[str, Factory] = {}


def register(factory: Factory) -> Factory:
    """Add the targets that `factory` makes; use as a decorator.

    It is called when targets are listed, so that importing a module stays cheap. Registering the
    same function again replaces it.
    """
    _registered[f"{factory.__module__}.{factory.__qualname__}"] = factory
    return factory


def targets(*, kind: str | None = None, sound: bool | None = None) -> tuple[AuditTarget, ...]:
    """List the targets of the catalogue, then those registered, in order.

    `sound` keeps those expected to hold, or broken on purpose. H602 if two have one name.
    """
    # Whoever audits a claim of their own need not wait for every estimator and protocol.
    from hedgerow.audit.catalogue import FACTORIES

    found = [target for make in (*FACTORIES, *_registered.values()) for target in make()]
    name, times = Counter(target.name for target in found).most_common(1)[0]
    if times > 1:
        raise Code.BAD_AUDIT.error(
            found=f"two targets named {name!r}, of {' and '.join(_makers(name))}",
            expected="every target name once",
            fix="rename one of them",
        )
    return tuple(
        target for target in found if kind in (None, target.kind) and sound in (None, target.sound)
    )


def _makers(name: str) -> list[str]:
    """Return which factories make a target of this name."""
    from hedgerow.audit.catalogue import FACTORIES

    every = (*FACTORIES, *_registered.values())
    return [make.__qualname__ for make in every for target in make() if target.name == name]


def lookup(name: str) -> AuditTarget:
    """Find a target by name, or raise `Code.UNKNOWN_TARGET`."""
    known = {target.name: target for target in targets()}
    if name not in known:
        raise Code.UNKNOWN_TARGET.error(
            found=repr(name), expected=f"one of {', '.join(sorted(known))}"
        )
    return known[name]
