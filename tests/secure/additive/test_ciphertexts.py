"""Between ciphertexts and shares (algorithm 1): exact, as costly as declared, and hidden."""

from typing import Any

import numpy as np
import pytest

from hedgerow.crypto.paillier import Encrypted, PublicKey, Slots
from hedgerow.errors import Code, HedgerowError
from hedgerow.secure.additive import ciphertexts
from hedgerow.secure.additive.ciphertexts import STATISTICAL, JointKey, slot_width
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from tests.secure.engines import metered, peers, reveal, share

BITS = 512


@pytest.fixture(scope="module", params=[2, 3], ids=lambda m: f"{m} peers")
def engine(request: pytest.FixtureRequest) -> Any:
    return peers(request.param)


@pytest.fixture(scope="module")
def key(engine: Any) -> JointKey:
    return JointKey.insecure_dealt(engine.core, BITS)


def converted(engine: Any, key: JointKey, x: Encrypted, to: int, ring: Ring) -> np.ndarray:
    """Turn ciphertexts of one peer into shares, and look at them."""
    sizes = {to: x.data.size}
    data = key.share({to: x}, sizes, x.slots, x.most, ring)[to]
    return reveal(share(engine, np.zeros(1, int), ring).like(data))


@pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "one by one"])
def test_shares_of_ciphertexts_of_shares(
    engine: Any, key: JointKey, ring: Ring, packed: bool
) -> None:
    """There and back again, also after a sum of all."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2**ring.bits, (7, 3), dtype=np.uint64).astype(ring.dtype)
    x, m = share(engine, a, ring), engine.n_parties
    width = slot_width(m, 7 * m * 2**ring.bits)
    slots = Slots(3, width) if packed else Slots(1, key.public.room)
    everywhere = key.encrypt_for_all(x.data, slots, ring)
    assert everywhere.data.shape == (7, 1 if packed else 3)
    alone = key.encrypt({1: x.data}, slots, ring)[1]
    for made in (everywhere, alone):
        assert made.most == m * (2**ring.bits - 1)
        found = converted(engine, key, made.reshape(-1), 1, ring)
        assert np.array_equal(found.reshape(7, 3), a)
        turned = Encrypted(key.public, slots, made.most, made.data.T)
        total = turned.sums([np.arange(7)], 7).reshape(-1)
        found = converted(engine, key, total, 0, ring)
        assert np.array_equal(found.reshape(3), a.sum(axis=0, dtype=ring.dtype))


def test_costs_are_those_of_the_meter(engine: Any, key: JointKey) -> None:
    m, slots = engine.n_parties, Slots(2, 110)
    assert metered(engine, lambda: JointKey.insecure_dealt(engine.core, 256)) == JointKey.cost_deal(
        m, 256
    )
    x = share(engine, np.arange(10).reshape(5, 2), Z16)
    sizes = dict.fromkeys(range(m), 5)
    assert metered(engine, lambda: key.encrypt_for_all(x.data, slots, Z16)) == key.cost_broadcast(
        sizes
    )
    assert metered(
        engine, lambda: key.encrypt(dict.fromkeys((0, 1), x.data), slots, Z16)
    ) == key.cost_collect({0: 5, 1: 5})
    held = key.encrypt_for_all(x.data, slots, Z16).reshape(-1)
    cost = key.cost_share({0: 5, 1: 4}, slots)
    assert (
        metered(
            engine,
            lambda: key.share({0: held, 1: held[:4]}, {0: 5, 1: 4}, slots, held.most, Z16),
        )
        == cost
    )
    # Two go into one: 3 and 2 of them, twice to the owner and once from it.
    assert cost.rounds == 3
    sent = [2 * 2 + 3 * (m - 1), 2 * 3 + 2 * (m - 1)] + [2 * 5] * (m - 2)
    assert cost.bytes == tuple(count * BITS // 4 for count in sent)


def test_nothing_costs_nothing(engine: Any, key: JointKey) -> None:
    x = share(engine, np.zeros((0, 2), int), Z16)
    slots = Slots(2, 110)
    empty = key.encrypt_for_all(x.data, slots, Z16)
    assert empty.data.size == 0
    run = lambda: key.share({0: empty.reshape(0)}, {0: 0}, slots, empty.most, Z16)  # noqa: E731
    assert metered(engine, run) == key.cost_share({0: 0}, slots)


def test_masks_that_would_not_fit_are_refused_before_anything_is_sent(
    engine: Any, key: JointKey
) -> None:
    m, before = engine.n_parties, engine.network.meter.snapshot()
    width = slot_width(m, 1000)
    tight = Encrypted.of(key.public, Slots(1, width - 1), np.array([[5]], dtype=object), 1000)
    with pytest.raises(HedgerowError) as caught:
        key.share({0: tight[:, 0]}, {0: 1}, tight.slots, 1000, Z16)
    assert caught.value.code is Code.PLAINTEXT_OVERFLOW
    with pytest.raises(HedgerowError, match="may be larger"):
        key.share({0: tight[:, 0]}, {0: 1}, tight.slots, 999, Z16)
    assert (engine.network.meter.snapshot() - before).total(0).payload == 0
    assert width == 10 + STATISTICAL + 2


class Openings(PublicKey):
    """Remembers what was decrypted: the view of the peer to which it is."""

    def __init__(self, modulus: int) -> None:
        super().__init__(modulus, insecure_small=True)
        self.seen: list[int] = []

    def combine(self, partials: Any) -> Any:
        plain = super().combine(partials)
        self.seen += [int(x) for x in plain]
        return plain


def decrypted(engine: Any, key: JointKey, x: int, most: int, times: int) -> np.ndarray:
    """What is decrypted where x is turned into shares so often."""
    watched = Openings(int(key.public.modulus))
    key.public = watched
    single = Slots(1, watched.room)
    held = Encrypted.of(watched, single, np.full((times, 1), x, dtype=object), most)[:, 0]
    found = key.share({0: held}, {0: times}, single, most, Z32)[0]
    assert (found.sum(axis=0, dtype=np.uint32) == x).all()
    return np.array(watched.seen, dtype=object)


def test_short_masks_show_what_they_should_hide_and_ours_do_not() -> None:
    """Masks of 15 bits, as in the authors' program, against those that are long enough.

    A curious first peer knows its own mask; here it does without.
    """
    engine: Any = peers(2)
    most, times = 2**20, 400
    outcomes = {}
    for name, bits in (("theirs", 15 - most.bit_length()), ("ours", STATISTICAL)):
        key = JointKey.insecure_dealt(engine.core, 256)
        key.statistical = bits
        low, high = (decrypted(engine, key, x, most, times) for x in (0, most))
        middle = sorted([*low, *high])[times]
        outcomes[name] = (np.sum(low < middle) + np.sum(high >= middle)) / (2 * times)
    assert outcomes["theirs"] == 1.0
    # Fair coins: 6 standard deviations of 800.
    assert abs(outcomes["ours"] - 0.5) < 6 * 0.5 / np.sqrt(2 * times)


def test_the_distance_that_is_stated() -> None:
    """Exact, for masks of few bits: x + r against r, over all numbers."""
    for bits in range(1, 6):
        most, extra = 2**bits - 1, 3
        size = 2 ** (bits + extra)
        for x in range(most + 1):
            laws = np.zeros((2, size + most))
            laws[0, :size] = laws[1, x : x + size] = 1 / size
            distance = np.abs(laws[0] - laws[1]).sum() / 2
            assert distance == pytest.approx(x / size)
            assert distance < 2.0**-extra
    # For as many numbers as a tree of 2^24 has.
    assert 2.0**-STATISTICAL * 2**24 <= 2.0**-40


def test_a_ciphertext_that_was_changed_on_the_way_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine: Any = peers(2)
    key = JointKey.insecure_dealt(engine.core, 256)
    x = share(engine, np.arange(4).reshape(4, 1), Z16)
    whole = key.public.write
    monkeypatch.setattr(key.public, "write", lambda c: whole(c) * 0)
    with pytest.raises(HedgerowError, match="peer 0, ciphertext 0 of 4") as caught:
        key.encrypt({1: x.data}, Slots(1, 100), Z16)
    assert caught.value.code is Code.BAD_CIPHERTEXT


def test_keys_of_another_size_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deal = ciphertexts.insecure_deal
    monkeypatch.setattr(ciphertexts, "insecure_deal", lambda n, bits: deal(n, bits - 1))
    engine: Any = peers(2)
    with pytest.raises(HedgerowError, match="256 bits"):
        JointKey.insecure_dealt(engine.core, 256)
