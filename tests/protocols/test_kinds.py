"""Kinds of hidden models."""

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.hidden.answers import TREES
from hedgerow.protocols.kinds import KINDS, kind_named


def test_every_listed_kind_is_there() -> None:
    assert kind_named("trees") is TREES
    assert all(kind_named(name) is kind for name, kind in KINDS.items())


def test_others_are_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        kind_named("os:system")
    assert caught.value.code is Code.BAD_PARAMETER
