"""Kinds of models that the three servers train, by the name that a job gives them."""

from __future__ import annotations

from hedgerow.errors import Code
from hedgerow.protocols.hidden.answers import TREES
from hedgerow.protocols.hidden.boosting import BOOSTING
from hedgerow.protocols.hidden.kind import Kind
from hedgerow.protocols.hidden.open_id3 import OPEN
from hedgerow.protocols.hidden.regression import REGRESSION

KINDS: dict[str, Kind] = {
    "trees": TREES,
    "open": OPEN,
    "regression": REGRESSION,
    "boosting": BOOSTING,
}


def kind_named(name: str) -> Kind:
    """Return the kind of that name; H501 for one that nobody listed."""
    kind = KINDS.get(name)
    if kind is None:
        raise Code.BAD_PARAMETER.error(
            expected=f"a kind of model among {', '.join(KINDS)}", found=repr(name)
        )
    return kind
