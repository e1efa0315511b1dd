"""Messages between sites: bytes and back, and nothing else."""

from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3 import messages as wire

U64 = st.integers(0, 2**64 - 1)
SITE = st.integers(0, 2**16 - 1)
VALUES = {
    "int": U64,
    "float": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=40),
    "Token": st.builds(wire.Token, SITE, U64),
    "Sites": st.lists(SITE, max_size=5).map(tuple),
    "Numbers": st.lists(U64, max_size=5).map(tuple),
    "Blobs": st.lists(st.binary(max_size=10), max_size=5).map(tuple),
}
MESSAGES = st.one_of(
    [
        st.builds(kind, **{field.name: VALUES[str(field.type)] for field in fields(kind)})
        for kind in wire._KINDS.values()
    ]
)


def refused(data: bytes) -> bool:
    with pytest.raises(HedgerowError, match="from site 5") as caught:
        wire.from_bytes(data, "site 5")
    return caught.value.code is Code.BAD_SITE_MESSAGE


@given(MESSAGES)
def test_every_message_comes_back(message: wire.Message) -> None:
    data = wire.to_bytes(message)
    assert wire.from_bytes(data, "x") == message
    assert data[:3] == b"HP\x02"


@given(MESSAGES, st.data())
def test_what_is_cut_off_or_longer_is_refused(message: wire.Message, data: st.DataObject) -> None:
    whole = wire.to_bytes(message)
    assert refused(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert refused(whole + b"\0")


@given(st.binary(max_size=80))
def test_noise_is_refused_or_is_a_message(noise: bytes) -> None:
    data = b"HP\x02" + noise
    message = None
    with suppress(HedgerowError):
        message = wire.from_bytes(data, "site 5")
    assert refused(data) if message is None else wire.to_bytes(message) == data


@pytest.mark.parametrize(
    "head", [b"", b"H", b"XX\x02\x01", b"HP\x01\x01", b"HP\x02\x00", b"HP\x02\xff"]
)
def test_unknown_heads_are_refused(head: bytes) -> None:
    assert refused(head + bytes(64))


def test_a_forged_length_asks_for_no_memory() -> None:
    start = wire.to_bytes(wire.Common(1, 0, b""))[:-8]
    assert refused(start + (2**60).to_bytes(8, "little") + b"abc")
    listed = wire.to_bytes(wire.Sum(1, (), 0))[:-12]
    assert refused(listed + (2**31).to_bytes(4, "little") + b"abc")


def test_kinds_are_numbered_once() -> None:
    # Numbers that were in use once are not given again.
    assert sorted(wire._KINDS) == sorted(set(range(1, 26)) - {4, 5})
    assert wire._KINDS[22] is wire.Half


def test_tokens_read_as_in_the_paper() -> None:
    assert str(wire.Token(1, 4)) == "S2L4"
