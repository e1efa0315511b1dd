"""Owners as `TopDownTreeClassifier.fit_owners` takes them: their names, and words about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.errors import Code, HedgerowError, warn_caller
from hedgerow.estimators.hidden_owners import check_lists
from hedgerow.protocols.topdown.parts import SERVER_NAMES
from hedgerow.protocols.topdown.secure_run import SecureRun


def names_of_owners(
    tables: Sequence[Any], ys: Sequence[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the names of the owners: as given, or ``"owner 0"`` and so on.

    Parameters
    ----------
    tables, ys, names
        As in `TopDownTreeClassifier.fit_owners`.

    Raises
    ------
    HedgerowError
        H109 for what is not a list, H108 for lists of different lengths, H501 for a name that two
        owners have or that is a server's.
    """
    check_lists(tables, ys)
    found = tuple(names) if names is not None else tuple(f"owner {i}" for i in range(len(tables)))
    if not tables or len(ys) != len(tables) or len(found) != len(tables):
        raise Code.WRONG_SHAPE.error(
            expected="one table, one target and one name per owner",
            found=f"{len(tables)} tables, {len(ys)} targets and {len(found)} names",
            fix="pass lists with one entry for every owner, in the same order",
        )
    if len(set(found)) < len(found) or set(found) & set(SERVER_NAMES):
        raise Code.BAD_PARAMETER.error(
            expected="a name of its own for every owner, none of a server",
            found=f"names {', '.join(map(repr, found))}",
        )
    return found


def of_owner(name: str, error: HedgerowError) -> HedgerowError:
    """Say whose table an error is about."""
    found = f"{error.found}, in the table of {name!r}"
    return error.code.error(expected=error.expected, found=found, fix=error.fix)


def warn_of_owners_left_out(run: SecureRun) -> None:
    """Warn of every owner whose counts the servers could not use."""
    for at, name, number in run.left_out:
        warn_caller(
            f"the counts of {name!r} could not be used in round {at} ({number}): the tree has "
            "grown without them",
        )
