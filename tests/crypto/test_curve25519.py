"""Points of the curve are told from the rest, and hashes are those of RFC 9380."""

import random

import numpy as np
import pytest

from hedgerow.crypto import curve25519
from hedgerow.crypto.curve25519 import P, classify, elements, hash_to_curve

SUITE = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
# RFC 9380, appendix J.4.2: u, x of Q before and x of P after clearing the cofactor.
VECTORS = {
    b"": (
        0x608D892B641F0328523802A6603427C26E55E6F27E71A91A478148D45B5093CD,
        0x51125222DA5E763D97F3C10FCC92EA6860B9CCBBD2EB1285728F566721C1E65B,
        0x1BB913F0C9DAEFA0B3375378FFA534BDA5526C97391952A7789EB976EDFE4D08,
    ),
    b"abc": (
        0x46F5B22494BFEAA7F232CC8D054BE68561AF50230234D7D1D63D1D9ABECA8DA5,
        0x7D56D1E08CB0CCB92BAF069C18C49BB5A0DCD927EFF8DCF75CA921EF7F3E6EEB,
        0x7C22950B7D900FA866334262FCAEA47A441A578DF43B894B4625C9B450F9A026,
    ),
    b"abcdef0123456789": (
        0x235FE40C443766CE7E18111C33862D66C3B33267EFA50D50F9E8E5D252A40AAA,
        0x3FBE66B9C9883D79E8407150E7C2A1C8680BEE496C62FABE4619A72B3CABE90F,
        0x31AD08A8B0DEEB2A4D8B0206CA25F567AB4E042746F792F4B7973F3AE2096C52,
    ),
}


def double(u: int) -> int:
    """Double a point by its u-coordinate: x(2P) = (u^2 - 1)^2 / (4 u (u^2 + A u + 1))."""
    below = 4 * u * (u * u + curve25519.A_CURVE * u + 1)
    return (u * u - 1) ** 2 * pow(below, -1, P) % P


def is_on_curve(u: int) -> bool:
    value = u * (u * u + curve25519.A_CURVE * u + 1) % P
    return pow(value, (P - 1) // 2, P) == 1


@pytest.mark.parametrize("message", VECTORS)
def test_hashes_are_those_of_the_standard(message: bytes) -> None:
    u, q, cleared = VECTORS[message]
    assert curve25519._field_element(message, SUITE) == u
    found = int.from_bytes(hash_to_curve([message], SUITE)[0].tobytes(), "little")
    assert found == q
    assert double(double(double(found))) == cleared


def test_classify_agrees_with_eulers_criterion() -> None:
    rng = random.Random(7)
    values = [rng.randrange(2, P) for _ in range(3000)] + [2, 3, 4, 9, P - 2, P - 3]
    kinds = classify(elements(values))
    expected = [curve25519.GOOD if is_on_curve(u) else curve25519.ON_TWIST for u in values]
    assert kinds.tolist() == expected
    # Half of all numbers are on the curve: a hash that did not choose would mark its elements.
    assert 0.45 < np.mean(kinds == curve25519.GOOD) < 0.55


def test_numbers_near_powers_of_two_carry_correctly() -> None:
    values = [(1 << bits) + step for bits in range(30, 255) for step in (-2, -1, 1, 2)]
    values = [u for u in values if u < P and u not in curve25519._SMALL]
    expected = [curve25519.GOOD if is_on_curve(u) else curve25519.ON_TWIST for u in values]
    assert classify(elements(values)).tolist() == expected


def test_other_encodings_and_small_orders_are_told() -> None:
    assert (
        classify(elements([P, P + 1, 2**255, 2**256 - 1])).tolist()
        == [curve25519.NOT_CANONICAL] * 4
    )
    assert classify(elements(curve25519._SMALL)).tolist() == [curve25519.SMALL_ORDER] * 4
    for u in curve25519._SMALL[2:]:
        # Order 8: three doublings lead to 1, 0 and the point at infinity.
        assert double(u) == 1
        assert double(1) == 0
    assert classify(elements([P - 1])).tolist() == [curve25519.ON_TWIST]


def test_every_hash_is_on_the_curve_and_depends_on_the_domain() -> None:
    messages = [str(i).encode() for i in range(500)]
    first, second = (hash_to_curve(messages, domain) for domain in (b"a", b"b"))
    assert not classify(first).any()
    assert not (first == second).all(axis=1).any()
    assert len({row.tobytes() for row in first}) == 500
    assert hash_to_curve([], b"a").shape == (0, 32)


def root_of(square: int) -> int | None:
    """Return a square root modulo p, if there is one."""
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square:
        root = root * pow(2, (P - 1) // 4, P) % P
    return root if root * root % P == square else None


def test_products_chosen_for_their_carry() -> None:
    """Solve u (u + A) = t for t that leave a full low limb and empty high ones after the fold."""
    a, half, rng = curve25519.A_CURVE, pow(2, -1, P), random.Random(11)
    # A point of the twist whose product ends in such limbs.
    values = [0x6B411D34708D87950333CDDBC04CF66DCCB7199CEBB3CC07DCD7902B0E57AE93]
    for low_bits in (32, 64, 160, 192):
        for carry in range(1, 39):
            low = 0xFFFFFFFF | rng.getrandbits(low_bits) << 32
            for t in (low + 38 * carry, low - carry, (1 << 256) - 38 * carry, carry):
                root = root_of((a * a + 4 * t) % P)
                if root is not None:
                    values += [(r - a) * half % P for r in (root, P - root)]
    values = [u for u in values if u not in curve25519._SMALL]
    assert len(values) > 500
    expected = [curve25519.GOOD if is_on_curve(u) else curve25519.ON_TWIST for u in values]
    assert expected[0] == curve25519.ON_TWIST
    assert classify(elements(values)).tolist() == expected


def test_products_are_those_of_whole_numbers() -> None:
    rng, full = random.Random(12), 0xFFFFFFFF
    limbs = (0, 1, 37, 38, 19, full - 38, full - 1, full)
    scratch = np.zeros(16, np.uint64)
    pairs = [
        [[1] + [0] * 7, [full - i, *[full] * 6, top]]
        for i in range(50)
        for top in (full, full >> 1)
    ]
    pairs += [
        [[rng.choice((*limbs, rng.getrandbits(32))) for _ in range(8)] for _ in "vu"]
        for _ in range(3000)
    ]
    for factors in pairs:
        numbers = [sum(limb << 32 * j for j, limb in enumerate(one)) for one in factors]
        v, u = (np.array(one, dtype=np.uint64) for one in factors)
        curve25519._multiply(v, u, scratch)
        found = sum(int(limb) << 32 * j for j, limb in enumerate(v))
        assert found == numbers[0] * numbers[1] % P
