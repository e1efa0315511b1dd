import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.sealing_keys import SignedKey
from hedgerow.parties.topdown.letters import KeyLetter, OwnerLetter, ServerLetter, read_at_server
from tests.parties.wire.parties_calls import refuses

RUN = bytes(range(16))
KEYS = tuple(SignedKey(bytes([i]) * 32, bytes([i]) * 64, True) for i in range(3))


def test_letters_come_back_as_they_were_written() -> None:
    ask = b'{"a":1}\nwith\nlines \x00'
    owner = OwnerLetter(RUN, KEYS, ask)
    assert OwnerLetter.from_bytes(owner.to_bytes()) == owner
    for letter in (KeyLetter(RUN), ServerLetter(RUN, ask)):
        assert read_at_server(letter.to_bytes()) == letter


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\n",
        b"{}\n",
        b"[1]\n",
        b"x" * (1 << 15),
        KeyLetter(RUN).to_bytes(),
        ServerLetter(RUN, b"x").to_bytes(),
        OwnerLetter(RUN, KEYS[:2], b"x").to_bytes(),
        OwnerLetter(RUN[1:], KEYS, b"x").to_bytes(),
        OwnerLetter(RUN, KEYS, b"x").to_bytes().replace(b'"keys":[', b'"keis":['),
    ],
)
def test_an_owner_reads_no_other(message: bytes) -> None:
    refuses(Code.BAD_ASK, lambda: OwnerLetter.from_bytes(message))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{}\n",
        KeyLetter(RUN).to_bytes() + b"a question",
        KeyLetter(RUN[1:]).to_bytes(),
        ServerLetter(RUN[1:], b"x").to_bytes(),
        OwnerLetter(RUN, KEYS, b"x").to_bytes(),
    ],
)
def test_a_server_reads_no_other(message: bytes) -> None:
    refuses(Code.BAD_ASK, lambda: read_at_server(message))
