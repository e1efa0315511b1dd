import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.crypto.sealed import (
    KEY_BYTES,
    OVERHEAD,
    SealingKey,
    seal,
)
from hedgerow.errors import Code, HedgerowError

KEY = SealingKey(bytes(range(32)))
CONTEXT = b"run 7, round 3, owner amsterdam, server 1"


def refused(call, code: Code = Code.SEALED_REFUSED) -> None:
    with pytest.raises(HedgerowError) as error:
        call()
    assert error.value.code is code


@given(message=st.binary(max_size=300), context=st.binary(max_size=50))
def test_the_receiver_reads_what_was_sealed(message: bytes, context: bytes) -> None:
    sealed = seal(message, KEY.public, context)
    assert len(sealed) == len(message) + OVERHEAD
    assert KEY.open(sealed, context) == message


def test_a_known_answer_stays_the_same() -> None:
    """Fixed by the format: keys 00..1f and 20..3f, message and context below."""
    sealed = seal(b"counts", KEY.public, CONTEXT, entropy=lambda n: bytes(range(32, 32 + n)))
    assert sealed.hex() == (
        "01358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd1662543174f01675b54c"
        "caaede38c90068ad216a60c9aac99e"
    )
    assert KEY.open(sealed, CONTEXT) == b"counts"


def test_two_messages_share_nothing() -> None:
    one, two = (seal(bytes(64), KEY.public, CONTEXT) for _ in range(2))
    assert one[1 : 1 + KEY_BYTES] != two[1 : 1 + KEY_BYTES]
    assert one[1 + KEY_BYTES :] != two[1 + KEY_BYTES :]
    assert bytes(16) not in one[1 + KEY_BYTES :]


def test_every_changed_byte_is_found() -> None:
    sealed = bytearray(seal(b"seven", KEY.public, CONTEXT))
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        refused(lambda changed=changed: KEY.open(bytes(changed), CONTEXT))
    refused(lambda: KEY.open(bytes(sealed[:-1]), CONTEXT))
    refused(lambda: KEY.open(bytes(sealed) + b"\0", CONTEXT))
    refused(lambda: KEY.open(b"", CONTEXT))


def test_another_receiver_or_context_does_not_open_it() -> None:
    sealed = seal(b"seven", KEY.public, CONTEXT)
    refused(lambda: SealingKey().open(sealed, CONTEXT))
    refused(lambda: KEY.open(sealed, CONTEXT.replace(b"server 1", b"server 2")))


def test_keys_that_are_none_are_refused() -> None:
    refused(lambda: seal(b"x", b"short", CONTEXT))
    # Points of small order give a product that everybody knows.
    refused(lambda: seal(b"x", bytes(32), CONTEXT))
    refused(lambda: KEY.open(b"\x01" + bytes(32) + bytes(16), CONTEXT))
    refused(lambda: SealingKey(b"short"))


def test_a_kept_key_opens_later_and_is_not_printed() -> None:
    key = SealingKey()
    sealed = seal(b"later", key.public, CONTEXT)
    assert SealingKey(key.secret).open(sealed, CONTEXT) == b"later"
    assert key.secret.hex() not in repr(key)
