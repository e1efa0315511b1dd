"""Base transfers by plain arithmetic on the curve, and points that are refused."""

import numpy as np
import pytest
from nacl import bindings as sodium

from hedgerow.crypto.oblivious_transfer.base import BaseReceiver, BaseSender, _to_point
from hedgerow.crypto.oblivious_transfer.messages import SessionHash
from hedgerow.errors import Code, HedgerowError
from tests.crypto.oblivious_transfer.plain import seeded

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ORDER = 2**252 + 27742317777372353535851937790883648493
HERE = SessionHash(b"session", (0, 1))
Point = tuple[int, int]


def add(p: Point, q: Point) -> Point:
    """Add on the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2."""
    (x1, y1), (x2, y2) = p, q
    t = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P,
        (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P,
    )


def multiply(k: int, p: Point) -> Point:
    result = (0, 1)
    while k:
        result = add(result, p) if k & 1 else result
        p, k = add(p, p), k >> 1
    return result


def decode(data: bytes) -> Point:
    whole = int.from_bytes(data, "little")
    y, sign = whole & ((1 << 255) - 1), whole >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return (P - x if x & 1 != sign else x), y


def encode(p: Point) -> bytes:
    return (p[1] | (p[0] & 1) << 255).to_bytes(32, "little")


BASE = decode(bytes([0x58]) + bytes([0x66]) * 31)
# A point of order 8, from the u-coordinates that X25519 has to refuse.
EIGHT = decode(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"))
GOOD = multiply(12345, BASE)
REFUSED = {
    "identity": encode((0, 1)),
    "order 2": encode((0, P - 1)),
    "order 4": encode(multiply(2, EIGHT)),
    "order 8": encode(EIGHT),
    "order 8 beside a good one": encode(add(GOOD, EIGHT)),
    "identity, y + p": (P + 1).to_bytes(32, "little"),
    "y not below p": (P + 3).to_bytes(32, "little"),
    "all ones": b"\xff" * 32,
    "not on the curve": next(
        y.to_bytes(32, "little")
        for y in range(2, 50)
        if pow((y * y - 1) * pow(D * y * y + 1, -1, P), (P - 1) // 2, P) == P - 1
    ),
}


def pair(
    choices: list[int], context: SessionHash = HERE, label: str = "base"
) -> tuple[BaseSender, BaseReceiver]:
    sender = BaseSender(context, len(choices), seeded(f"{label}/sender"))
    return sender, BaseReceiver(context, np.array(choices), seeded(f"{label}/receiver"))


def test_the_receiver_has_the_key_of_its_choice_alone() -> None:
    choices = np.random.default_rng(1).integers(0, 2, 128).tolist()
    sender, receiver = pair(choices)
    points, pairs = sender.begin(), receiver.begin()
    assert (points.size, pairs.size) == (128 * 32, 128 * 64)
    both, mine = sender.keys(pairs), receiver.keys(points)
    assert (both.shape, mine.shape) == ((128, 2, 16), (128, 16))
    np.testing.assert_array_equal(both[np.arange(128), choices], mine)
    assert len({key.tobytes() for key in both.reshape(-1, 16)}) == 256


def test_points_and_keys_are_those_of_the_protocol() -> None:
    """A and R by plain arithmetic; F(a (R_j + H_j(R_(1-j)))) is F(b A) for the choice."""
    sender, receiver = pair([0, 1, 1])
    points, pairs = sender.begin().reshape(3, 32), receiver.begin().reshape(3, 2, 32)
    keys = sender.keys(receiver.begin())
    assert multiply(ORDER, BASE) == (0, 1)
    for i, choice in enumerate([0, 1, 1]):
        a = int.from_bytes(sender._scalars[i], "little")
        b = int.from_bytes(receiver._scalars[i], "little")
        assert encode(multiply(a, BASE)) == points[i].tobytes()
        r = [decode(point.tobytes()) for point in pairs[i]]
        masked = [add(r[j], decode(_to_point(HERE, i, j, encode(r[1 - j])))) for j in (0, 1)]
        assert masked[choice] == multiply(b, BASE)
        for j in (0, 1):
            parts = [points[i].tobytes(), *(encode(p) for p in r), encode(multiply(a, masked[j]))]
            place = bytes([j]) + i.to_bytes(4, "little")
            assert HERE.hash("base key", 16, place, *parts) == keys[i, j].tobytes()


def test_hashed_points_have_prime_order() -> None:
    hashed = {_to_point(HERE, i, j, encode(GOOD)) for i in range(8) for j in (0, 1)}
    assert len(hashed) == 16
    assert all(multiply(ORDER, decode(point)) == (0, 1) for point in hashed)


def test_points_sent_do_not_depend_on_the_choices(chi_square) -> None:
    for choice in (0, 1):
        _, receiver = pair([choice] * 512)
        sent = receiver.begin().reshape(512, 2, 32)
        for j in (0, 1):
            counts = np.bincount(sent[:, j, 0] >> 4, minlength=16)
            assert chi_square(counts, np.full(16, 1 / 16)) > 1e-4


@pytest.mark.parametrize(
    "other", [SessionHash(b"session.", (0, 1)), SessionHash(b"session", (1, 0))]
)
def test_keys_belong_to_session_and_pair(other: SessionHash) -> None:
    sender, receiver = pair([0, 1])
    _, elsewhere = pair([0, 1], other)
    assert not (elsewhere.keys(sender.begin()) == receiver.keys(sender.begin())).all(axis=1).any()


@pytest.mark.parametrize("name", REFUSED)
def test_points_that_no_honest_side_sends(name: str) -> None:
    bad = np.frombuffer(REFUSED[name], dtype=np.uint8)
    sender, receiver = pair([0, 1])
    points, pairs = sender.begin().copy(), receiver.begin().copy()
    points[32:], pairs[64:96] = bad, bad
    for side, message in ((receiver, points), (sender, pairs)):
        with pytest.raises(HedgerowError) as refused:
            side.keys(message)
        assert refused.value.code is Code.BAD_TRANSFER_POINT


def test_a_sum_that_is_zero() -> None:
    sender, _ = pair([0])
    negative = sodium.crypto_core_ed25519_sub(encode((0, 1)), _to_point(HERE, 0, 0, encode(GOOD)))
    message = np.frombuffer(negative + encode(GOOD), dtype=np.uint8)
    with pytest.raises(HedgerowError) as refused:
        sender.keys(message)
    assert refused.value.code is Code.BAD_TRANSFER_POINT


@pytest.mark.parametrize("change", [lambda m: m[:-1], lambda m: m.view(np.uint64)])
def test_messages_of_another_size(change) -> None:
    sender, receiver = pair([0, 1])
    for side, message in ((receiver, sender.begin()), (sender, receiver.begin())):
        with pytest.raises(HedgerowError) as refused:
            side.keys(change(message))
        assert refused.value.code is Code.BAD_TRANSFER_MESSAGE
