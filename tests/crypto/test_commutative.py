"""The cipher commutes, comes undone, and refuses what an honest sender does not send."""

import itertools
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hedgerow.crypto import curve25519
from hedgerow.crypto.commutative import (
    CipherKey,
    Curve25519Cipher,
    _clamped,
    _scalar,
    elements_of,
    shuffled,
)
from hedgerow.crypto.curve25519 import ORDER, P, elements
from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.sharing.integrate import keyed

CIPHER = Curve25519Cipher()
POINTS = CIPHER.hash([str(i).encode() for i in range(300)], "test")


def test_three_keys_in_any_order_give_the_same_elements() -> None:
    keys = [CIPHER.new_key() for _ in range(3)]
    results = []
    for order in itertools.permutations(keys):
        found = POINTS[:20]
        for key in order:
            found = CIPHER.encrypt(key, found)
        results.append(found)
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert not (results[0] == POINTS[:20]).all(axis=1).any()


def test_keys_come_off_in_any_order() -> None:
    a, b = CIPHER.new_key(), CIPHER.new_key()
    both = CIPHER.encrypt(b, CIPHER.encrypt(a, POINTS))
    off = [
        CipherKey(_scalar(pow(int.from_bytes(key.secret, "little"), -1, ORDER))) for key in (a, b)
    ]
    assert np.array_equal(CIPHER.encrypt(off[0], CIPHER.encrypt(off[1], both)), POINTS)
    assert np.array_equal(CIPHER.encrypt(off[1], CIPHER.encrypt(off[0], both)), POINTS)
    assert not np.array_equal(CIPHER.encrypt(off[0], both), POINTS)


def test_multiplication_is_that_of_another_library() -> None:
    key = CIPHER.new_key()
    other = X25519PrivateKey.from_private_bytes(key.secret)
    expected = [
        other.exchange(X25519PublicKey.from_public_bytes(row.tobytes())) for row in POINTS[:50]
    ]
    assert [row.tobytes() for row in CIPHER.encrypt(key, POINTS[:50])] == expected


def test_what_is_encrypted_stays_on_the_curve() -> None:
    CIPHER.check(POINTS, "nobody")
    CIPHER.check(CIPHER.encrypt(CIPHER.new_key(), POINTS), "nobody")


def test_hashes_have_no_part_of_small_order() -> None:
    # Multiplied by the order (a multiple of 8 equal to 0) nothing remains; by plus or minus 1, all.
    one = _scalar(1)
    assert one is not None
    assert int.from_bytes(one, "little") % ORDER in (1, ORDER - 1)
    key = CIPHER.new_key()
    key.secret = one
    assert np.array_equal(CIPHER.encrypt(key, POINTS), POINTS)


def test_keys_are_fresh_unless_seeded() -> None:
    secrets = {CIPHER.new_key().secret for _ in range(50)}
    assert len(secrets) == 50
    assert all(
        int.from_bytes(s, "little") == _clamped(int.from_bytes(s, "little")) for s in secrets
    )
    seeded = [CIPHER.new_key(keyed(bytes(16))).secret for _ in range(2)]
    assert seeded[0] == seeded[1]


def test_keys_are_not_shown_or_copied() -> None:
    key = CIPHER.new_key()
    assert repr(key) == "CipherKey()"
    with pytest.raises(TypeError):
        pickle.dumps(key)


def test_purposes_and_messages_are_kept_apart() -> None:
    one, other = CIPHER.hash([b"7"], "records"), CIPHER.hash([b"7"], "sum")
    assert not np.array_equal(one, other)
    assert np.array_equal(one, CIPHER.hash([b"7"], "records"))


@pytest.mark.parametrize(
    ("u", "what"),
    [
        (0, "small order"),
        (1, "small order"),
        (curve25519._SMALL[2], "small order"),
        (curve25519._SMALL[3], "small order"),
        (P, "not below"),
        (P + 9, "not below"),
        (2**255 + 9, "not below"),
        (P - 1, "twist"),
        (2, "twist"),
    ],
)
def test_bad_elements_are_refused_by_number_and_sender(u: int, what: str) -> None:
    mixed = np.concatenate([POINTS[:100], elements([u]), POINTS[100:]])
    with pytest.raises(HedgerowError, match=f"{what}.* from site 3, element 100 of 301") as caught:
        CIPHER.check(mixed, "site 3")
    assert caught.value.code is Code.BAD_ELEMENT


def test_half_an_element_is_refused() -> None:
    assert elements_of(bytes(64), 32, "site 1").shape == (2, 32)
    with pytest.raises(HedgerowError, match="33 bytes from site 1"):
        elements_of(bytes(33), 32, "site 1")


def test_nothing_is_nothing() -> None:
    key = CIPHER.new_key()
    CIPHER.check(POINTS[:0], "nobody")
    assert CIPHER.encrypt(key, POINTS[:0]).shape == (0, 32)


def test_shuffles_are_permutations_of_every_sort(chi_square: object) -> None:
    draw = keyed(bytes(16))
    seen = [tuple(shuffled(3, draw).tolist()) for _ in range(1200)]
    orders = list(itertools.permutations(range(3)))
    counts = np.array([seen.count(order) for order in orders])
    assert counts.sum() == 1200
    assert chi_square(counts, np.full(6, 1 / 6)) > 1e-4
