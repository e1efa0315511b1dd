"""Protocols by their names, and by those of older versions."""

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.registry import SERVER_PROTOCOLS, server_protocol


def test_every_listed_protocol_is_there() -> None:
    assert server_protocol("hidden-tree") is HIDDEN_TREE
    assert all(server_protocol(name) is protocol for name, protocol in SERVER_PROTOCOLS.items())


def test_others_are_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        server_protocol("os:system")
    assert caught.value.code is Code.BAD_PARAMETER
