"""Parts dealt and halves joined outside the network; parts that do not fit together are found."""

import hashlib
import os
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import (
    Dealt,
    bits_of_parts,
    cost_fit_together,
    deal,
    fit_together,
    join_halves,
    join_parts,
    open_halves,
    secret_of_parts,
)
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.secure.secret import pack
from tests.secure.engines import NOTHING_OPENS, metered, peers, reveal
from tests.secure.replicated.wires import Recorder, apart

RINGS = pytest.mark.parametrize("ring", [Z16, Z32, Z64], ids=lambda ring: str(ring.bits))


def engine_that_opens(shape: tuple[int, ...]) -> ReplicatedEngine:
    opening = Opening("answer", "analyst", shape, independent="a test looks")
    return ReplicatedEngine(Simulator(3), Leakage([opening]), insecure_seed=b"outside")


def numbers(ring, *shape: int) -> np.ndarray:
    drawn = np.random.default_rng(0).integers(0, 2**63, shape, dtype=np.uint64)
    return (drawn * 3).astype(ring.dtype)


@RINGS
def test_dealt_numbers_are_a_secret(ring) -> None:
    engine = ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"outside")
    value = numbers(ring, 4, 3)
    x = secret_of_parts(engine, dict(enumerate(deal(value))), value.shape, ring)
    np.testing.assert_array_equal(reveal(x), value)
    np.testing.assert_array_equal(reveal(x * x), value * value)


def test_dealt_bits_are_secret_bits() -> None:
    engine = ReplicatedEngine(Simulator(3), NOTHING_OPENS, insecure_seed=b"outside")
    bits = np.random.default_rng(1).integers(0, 2, (3, 70)).astype(bool)
    x = bits_of_parts(engine, dict(enumerate(deal(pack(bits), xor=True))), bits.shape)
    np.testing.assert_array_equal(reveal(x), bits)


def test_peers_make_nothing_public_that_was_dealt_to_servers() -> None:
    engine, value = peers(3), numbers(Z32, 4)
    words, x = np.zeros((3, 2), np.uint64), engine.public(value, Z32)
    for refused in (
        lambda: secret_of_parts(engine, dict(enumerate(deal(value))), value.shape, Z32),
        lambda: bits_of_parts(engine, dict(enumerate(deal(words, xor=True))), (3, 70)),
        lambda: open_halves(engine, x, "answer", "analyst"),
    ):
        with pytest.raises(HedgerowError, match="H702"):
            refused()


def test_an_engine_that_hides_nothing_joins_all_parts() -> None:
    engine, value = ClearEngine(engine_that_opens((4,)).leakage), numbers(Z32, 4)
    parts = dict(enumerate(deal(value)))
    x = secret_of_parts(engine, parts, value.shape, Z32)
    np.testing.assert_array_equal(reveal(x), value)
    bits = np.random.default_rng(1).integers(0, 2, (3, 70)).astype(bool)
    dealt = dict(enumerate(deal(pack(bits), xor=True)))
    np.testing.assert_array_equal(reveal(bits_of_parts(engine, dealt, bits.shape)), bits)
    halves = open_halves(engine, x, "answer", "analyst")
    np.testing.assert_array_equal(join_halves(halves[0], halves[1]), value)
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine, x, "answer", "analyst")
    assert caught.value.code is Code.TOO_MANY_OPENINGS
    for gone in range(3):
        left = {server: part for server, part in parts.items() if server != gone}
        with pytest.raises(HedgerowError) as caught:
            secret_of_parts(engine, left, value.shape, Z32)
        assert caught.value.code is Code.WRONG_SHAPE


def test_each_server_gets_two_of_three_shares() -> None:
    zero, one, two = deal(numbers(Z32, 5))
    assert set(zero.seeds) == {0, 1}
    assert zero.correction is None
    assert set(one.seeds) == {1}
    assert set(two.seeds) == {0}
    assert one.seeds[1] == zero.seeds[1]
    assert two.seeds[0] == zero.seeds[0]
    assert one.correction is two.correction
    assert "seeds" not in repr(zero)


@RINGS
def test_halves_join_to_the_value_and_are_uniform_alone(ring) -> None:
    value = np.zeros(40_000, dtype=ring.dtype)
    engine = engine_that_opens(value.shape)
    x = secret_of_parts(engine, dict(enumerate(deal(value))), value.shape, ring)
    found = open_halves(engine, x, "answer", "analyst")
    assert sorted(found) == [0, 1]
    np.testing.assert_array_equal(join_halves(found[0], found[1]), value)
    for half in found.values():
        counts = np.bincount(half.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
    # The same shares under another mask.
    engine.leakage = engine_that_opens(value.shape).leakage
    again = open_halves(engine, x, "answer", "analyst")
    assert np.mean(again[0] == found[0]) < 0.1


def test_halves_are_checked_against_the_declaration() -> None:
    engine = engine_that_opens((2,))
    x = secret_of_parts(engine, dict(enumerate(deal(numbers(Z32, 3)))), (3,), Z32)
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine, x, "answer", "analyst")
    assert caught.value.code is Code.WRONG_OPENING_SHAPE
    y = secret_of_parts(engine, dict(enumerate(deal(numbers(Z32, 2)))), (2,), Z32)
    open_halves(engine, y, "answer", "analyst")
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine, y, "answer", "analyst")
    assert caught.value.code is Code.TOO_MANY_OPENINGS
    with pytest.raises(HedgerowError) as caught:
        open_halves(engine_that_opens((2,)), y, "answer", "analyst")
    assert caught.value.code is Code.SECRETS_DO_NOT_FIT


def test_parts_that_do_not_fit() -> None:
    engine = engine_that_opens((2,))
    parts = dict(enumerate(deal(numbers(Z32, 3))))
    for changed, shape, ring in (
        ({0: parts[0], 1: parts[1]}, (3,), Z32),
        ({0: parts[0], 1: parts[0], 2: parts[2]}, (3,), Z32),
        (parts, (4,), Z32),
        (parts, (3,), Z64),
    ):
        with pytest.raises(HedgerowError) as caught:
            secret_of_parts(engine, changed, shape, ring)
        assert caught.value.code is Code.WRONG_SHAPE
    with pytest.raises(HedgerowError) as caught:
        join_halves(numbers(Z32, 3), numbers(Z32, 4))
    assert caught.value.code is Code.WRONG_SHAPE


VALUES = np.arange(12, dtype=np.uint32).reshape(3, 4)


def parts_of(n: int) -> dict[int, list[Dealt | None]]:
    arrays = [deal(VALUES + i) for i in range(n)]
    return {server: [array[server] for array in arrays] for server in range(3)}


def engine_of(network=None) -> ReplicatedEngine:
    return ReplicatedEngine(network or Recorder(3), Leakage([]), insecure_seed=b"check")


def test_honest_parts_fit() -> None:
    np.testing.assert_array_equal(fit_together(engine_of(), parts_of(4), 4), [True] * 4)


def spoil_seed(parts, server: int, share: int) -> None:
    one = parts[server][1]
    parts[server][1] = replace(one, seeds={**one.seeds, share: os.urandom(16)})


def spoil_rest(parts, server: int) -> None:
    one = parts[server][1]
    correction = one.correction.copy()
    correction[2, 3] += 1
    parts[server][1] = replace(one, correction=correction)


SPOILT = {
    "seed 0 at server 0": lambda parts: spoil_seed(parts, 0, 0),
    "seed 1 at server 1": lambda parts: spoil_seed(parts, 1, 1),
    "seed 0 at server 2": lambda parts: spoil_seed(parts, 2, 0),
    "correction at server 1": lambda parts: spoil_rest(parts, 1),
    "correction at server 2": lambda parts: spoil_rest(parts, 2),
    "nothing at server 0": lambda parts: parts[0].__setitem__(1, None),
    "nothing anywhere": lambda parts: [parts[s].__setitem__(1, None) for s in range(3)],
}


@pytest.mark.parametrize("how", list(SPOILT))
def test_all_servers_find_the_one_that_does_not_fit(how: str) -> None:
    parts = parts_of(3)
    SPOILT[how](parts)
    found = apart(3, lambda e, p: fit_together(e, {p: parts[p]}, 3), lambda: Leakage([]))
    for verdict, _ in found:
        np.testing.assert_array_equal(verdict, [True, False, True])
    np.testing.assert_array_equal(fit_together(engine_of(), parts, 3), [True, False, True])


def test_no_server_sees_a_hash_that_it_could_test_guesses_with() -> None:
    network, parts = Recorder(3), parts_of(1)
    fit_together(engine_of(network), parts, 1)
    correction = parts[1][0].correction
    plain = hashlib.blake2b(
        b"rest" + correction.tobytes(), digest_size=32, person=b"hedgerow/dealt/1"
    ).digest()
    messages = [view.tobytes() for view in network.views[0]]
    assert len(messages) == 4
    assert plain not in messages


def test_cost_is_as_declared() -> None:
    engine = engine_of()
    assert metered(engine, lambda: fit_together(engine, parts_of(5), 5)) == cost_fit_together(5)


@pytest.mark.parametrize("xor", [False, True])
def test_who_holds_all_parts_holds_the_array(xor: bool) -> None:
    np.testing.assert_array_equal(
        join_parts(deal(VALUES, xor=xor), VALUES.shape, Z32.dtype, xor=xor), VALUES
    )
