"""Kinds of models and other results of the three servers, by the name that a job gives them."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.protocols.hidden.answers import TREES
from hedgerow.protocols.hidden.boosting import BOOSTING
from hedgerow.protocols.hidden.kind import AnsweredKind, Kind
from hedgerow.protocols.hidden.open_id3 import OPEN
from hedgerow.protocols.hidden.regression import REGRESSION

KINDS: dict[str, Kind] = {
    "trees": TREES,
    "open": OPEN,
    "regression": REGRESSION,
    "boosting": BOOSTING,
}


TOPDOWN = "topdown"
"""What owners publish with a coordinator; no kind of the servers."""

VERTICAL = "vertical-id3"
"""A tree in pieces, each at the site whose attribute it tests; no kind of the servers."""
OLD_VERTICAL = "ppid3"
"""Its name in jobs and policies of older versions, which are refused."""


def kind_named(name: str) -> Kind:
    """Return the kind of that name; H501 for one that nobody listed."""
    kind = KINDS.get(name)
    if kind is None:
        raise Code.BAD_PARAMETER.error(
            expected=f"a kind of model among {', '.join(KINDS)}", found=repr(name)
        )
    return kind


def is_published(name: str) -> bool:
    """Whether everybody sees what was made; hidden models are asked instead."""
    kind = KINDS.get(name)
    return name == TOPDOWN or (kind is not None and not isinstance(kind, AnsweredKind))


def answered_kind(name: str) -> AnsweredKind:
    """Return the kind of that name; H501 for one that is published, or that nobody listed."""
    kind = kind_named(name)
    if not isinstance(kind, AnsweredKind):
        raise Code.BAD_PARAMETER.error(
            expected="a model that is hidden, which the servers answer for",
            found=f"one of kind {name!r}",
            fix="take what the servers publish (`hedgerow models fetch`); a tree answers by itself",
        )
    return kind
