"""What arrives in a request, whole or hostile."""

import secrets

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.queries.inquiry import (
    MOST_ROWS,
    Inquiry,
    part_bytes,
    read_inquiry,
    write_part,
)
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.secure.replicated.outside import deal
from hedgerow.secure.secret import pack
from hedgerow.tables import encode
from tests.parties.queries.answer_towns import DOMAIN, table
from tests.parties.wire.parties_calls import refuses

LAYOUT = Layout(DOMAIN, "wary")
KEY = bytes(range(32))
ID = "0f" * 16


class Bytes:
    """Stands in for a payload."""

    def __init__(self, data: bytes) -> None:
        self.data, self.length = data, len(data)

    def read(self) -> bytes:
        return self.data


def parts_of(n: int) -> list:
    return list(deal(pack(query_planes(LAYOUT, encode(table(n)[0], DOMAIN))), xor=True))


def read(part, server: int, n: int, id_: str = ID, key: bytes = KEY):
    payload = Bytes(b"".join(write_part(part)))
    return read_inquiry(Inquiry(model="m", id=id_, n=n, what="class"), LAYOUT, server, payload, key)


@pytest.mark.parametrize("n", [1, 64, 65])
def test_parts_arrive_and_common_shares_have_common_prints(n: int) -> None:
    parts = parts_of(n)
    found = [read(part, server, n) for server, part in enumerate(parts)]
    for server, (part, got) in enumerate(zip(parts, found, strict=True)):
        assert got.dealt.seeds == part.seeds
        if part.correction is None:
            assert got.dealt.correction is None
        else:
            np.testing.assert_array_equal(got.dealt.correction, part.correction)
        assert len(b"".join(write_part(part))) == part_bytes(LAYOUT, n, server)
        # Server i holds the shares i and i + 1.
        assert got.prints[1] == found[(server + 1) % 3].prints[0]
    assert len({one for got in found for one in got.prints}) == 3


def test_digests_have_a_key_and_prints_an_identifier() -> None:
    part = parts_of(3)[1]
    one = read(part, 1, 3)
    assert read(part, 1, 3, key=KEY[::-1]).digest != one.digest
    other = read(part, 1, 3, id_=secrets.token_hex(16))
    assert other.prints != one.prints
    assert other.digest == one.digest
    assert str(one.dealt.seeds[1]) not in repr(one)


@pytest.mark.parametrize("change", [b"", b"0", b"0" * 1000])
def test_other_lengths_are_refused_unread(change: bytes) -> None:
    class Unread(Bytes):
        def read(self) -> bytes:
            raise AssertionError

    for server, part in enumerate(parts_of(3)):
        data = b"".join(write_part(part))
        payload = Unread(data[:-1] if not change else data + change)
        inquiry = Inquiry(model="m", id=ID, n=3, what="class")
        refuses(
            Code.BAD_REQUEST,
            lambda p=payload, s=server, i=inquiry: read_inquiry(i, LAYOUT, s, p, KEY),
        )


def test_fields() -> None:
    good = Inquiry(model="m", id=ID, n=3, what="class", again=True)
    assert Inquiry.model_validate(good.model_dump()) == good
    for code, change in (
        (Code.BAD_NAME, {"model": "a/b"}),
        (Code.BAD_NAME, {"model": 7}),
        (Code.BAD_NAME, {"model": "m\n"}),
        (Code.BAD_REQUEST, {"id": ID + "\n"}),
        (Code.BAD_REQUEST, {"id": ID.upper()}),
        (Code.BAD_REQUEST, {"id": 3}),
        (Code.BAD_REQUEST, {"n": MOST_ROWS + 1}),
        (Code.BAD_REQUEST, {"n": 1.0}),
        (Code.BAD_REQUEST, {"what": ["class"]}),
        (Code.BAD_REQUEST, {"again": "no"}),
        (Code.BAD_REQUEST, {"more": 0}),
    ):
        refuses(code, lambda c=change: Inquiry.model_validate(good.model_dump() | c))
    refuses(Code.BAD_REQUEST, lambda: Inquiry.model_validate({}))
