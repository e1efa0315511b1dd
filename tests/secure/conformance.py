"""What every engine must do: each primitive and each operator, against NumPy.

A test file of an engine subclasses `Conformance` and gives `engine` as a fixture of module scope.
"""

import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError, LeakageError, SecretError
from hedgerow.privacy import Leakage, Opening
from hedgerow.secure.cost import NOTHING
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, Secret, concatenate, stack
from tests.secure.engines import ENGINES, clear, metered, reveal, share, share_bits, three_servers
from tests.secure.primitive_calls import calls, mixed_calls

RINGS = st.sampled_from([Z16, Z32, Z64])
SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
SIDES = st.integers(0, 5)


@st.composite
def elements(draw: st.DrawFn, shapes: Any = SHAPES) -> tuple[Ring, NDArray[Any]]:
    ring = draw(RINGS)
    return ring, draw(npst.arrays(ring.dtype, shapes))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Ring, NDArray[Any], NDArray[Any]]:
    """Two arrays of one ring whose shapes broadcast."""
    ring = draw(RINGS)
    a, b = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4))[0]
    return ring, draw(npst.arrays(ring.dtype, a)), draw(npst.arrays(ring.dtype, b))


@st.composite
def factors(draw: st.DrawFn) -> tuple[Ring, NDArray[Any], NDArray[Any]]:
    """Two arrays of one ring that have a matrix product."""
    ring = draw(RINGS)
    signature = "(m?,k),(k,n?)->(m?,n?)"
    a, b = draw(npst.mutually_broadcastable_shapes(signature=signature, max_dims=2, max_side=4))[0]
    return ring, draw(npst.arrays(ring.dtype, a)), draw(npst.arrays(ring.dtype, b))


@st.composite
def bit_pairs(draw: st.DrawFn) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two arrays of bits of one length whose leading shapes broadcast."""
    n = draw(st.sampled_from([1, 7, 64, 65, 130]))
    a, b = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))[0]
    bits = [draw(npst.arrays(np.bool_, (*lead, n))) for lead in (a, b)]
    return bits[0], bits[1]


def examples(count: int = 25) -> settings:
    # One class body runs for several engines: that is the point of it.
    quiet = [HealthCheck.differing_executors, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, suppress_health_check=quiet)


class Conformance:
    """Inherit, and give the fixture `engine`."""

    @examples()
    @given(elements())
    def test_input_and_public_values_open_as_they_are(self, engine: Engine, drawn: Any) -> None:
        ring, a = drawn
        for x in (share(engine, a, ring), engine.public(a, ring)):
            assert x.shape == a.shape
            assert x.size == a.size
            assert reveal(x).dtype == ring.dtype
            assert np.array_equal(reveal(x), a)

    @examples()
    @given(bit_pairs())
    def test_bits_open_as_they_are(self, engine: Engine, drawn: Any) -> None:
        for bits in drawn:
            assert np.array_equal(reveal(share_bits(engine, bits)), bits)
            assert np.array_equal(reveal(engine.public_bits(bits)), bits)

    def test_negative_numbers_are_the_upper_half(self, engine: Engine) -> None:
        x = share(engine, np.array([-1, -(2**31)]), Z32)
        assert Z32.signed(reveal(x)).tolist() == [-1, -(2**31)]

    @examples()
    @given(pairs())
    def test_arithmetic_wraps_around_and_broadcasts(self, engine: Engine, drawn: Any) -> None:
        ring, a, b = drawn
        x, y = share(engine, a, ring), share(engine, b, ring)
        for got, wanted in (
            (x + y, np.add(a, b)),
            (x - y, np.subtract(a, b)),
            (x * y, np.multiply(a, b)),
            (-x, np.negative(a)),
            (x + b, np.add(a, b)),
            (a + y, np.add(a, b)),
            (x - b, np.subtract(a, b)),
            (a - y, np.subtract(a, b)),
            (x * b, np.multiply(a, b)),
            (a * y, np.multiply(a, b)),
            (x + 5, np.add(a, ring.encode(5))),
            (3 - x, np.subtract(ring.encode(3), a)),
            (-2 * x, np.multiply(a, ring.encode(-2))),
        ):
            assert np.array_equal(reveal(got), wanted)
            assert got.ring == ring

    @examples()
    @given(factors())
    def test_matrix_products(self, engine: Engine, drawn: Any) -> None:
        ring, a, b = drawn
        x, y, wanted = share(engine, a, ring), share(engine, b, ring), np.matmul(a, b)
        for product in (x @ y, x @ b, a @ y):
            assert np.array_equal(reveal(product), wanted)

    @examples()
    @given(bit_pairs())
    def test_logic(self, engine: Engine, drawn: Any) -> None:
        a, b = drawn
        x, y = share_bits(engine, a), share_bits(engine, b)
        for got, wanted in (
            (x ^ y, a ^ b),
            (x & y, a & b),
            (x | y, a | b),
            (x == y, a == b),
            (x != y, a != b),
            (~x, ~a),
            (x ^ b, a ^ b),
            (a ^ y, a ^ b),
            (x & b, a & b),
            (a & y, a & b),
            (x | b, a | b),
            (x ^ True, ~a),
            (x & b[..., :1], a & b[..., :1]),
        ):
            assert np.array_equal(reveal(got), wanted)

    @examples()
    @given(bit_pairs(), RINGS)
    def test_bits_become_numbers(self, engine: Engine, drawn: Any, ring: Ring) -> None:
        x = engine.b2a(share_bits(engine, drawn[0]), ring)
        assert x.ring == ring
        assert np.array_equal(reveal(x), drawn[0].astype(ring.dtype))

    @examples()
    @given(bit_pairs(), RINGS, st.data())
    def test_numbers_are_multiplied_by_bits(
        self, engine: Engine, drawn: Any, ring: Ring, data: Any
    ) -> None:
        bits = drawn[0].reshape(-1, drawn[0].shape[-1])
        a = data.draw(npst.arrays(ring.dtype, (*data.draw(SHAPES), bits.shape[1])))
        got = engine.mul_bits(share(engine, a, ring), share_bits(engine, bits))
        weights = ring.encode(np.left_shift(1, np.arange(len(bits))))[:, None]
        factor = (bits.astype(ring.dtype) * weights).sum(axis=0, dtype=ring.dtype)
        assert np.array_equal(reveal(got), a * factor)

    @examples()
    @given(elements(), st.data())
    def test_addends_add_up(self, engine: Engine, drawn: Any, data: Any) -> None:
        ring, a = drawn
        bits = data.draw(st.sampled_from([1, 2, 5, 15, 16, ring.bits]))
        parts = engine.addends(share(engine, a, ring), bits)
        assert len(parts) == engine.n_addends
        weights = [1 << j for j in range(bits)]
        total = sum(
            np.array([int(v @ np.array(weights, dtype=object)) for v in reveal(p).T], dtype=object)
            for p in parts
        )
        assert (total % (1 << bits)).tolist() == [int(v) % (1 << bits) for v in a.reshape(-1)]

    def test_random_bits_are_fair_and_fresh(self, engine: Engine) -> None:
        first, second = reveal(engine.random_bits((4, 5000))), reveal(engine.random_bits((4, 5000)))
        for bits in (first, second, first ^ second):
            assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)

    @examples()
    @given(elements(), RINGS)
    def test_reduce_takes_the_lowest_bits(self, engine: Engine, drawn: Any, to: Ring) -> None:
        ring, a = drawn
        if to.bits <= ring.bits:
            x = engine.reduce(share(engine, a, ring), to)
            assert x.ring == to
            assert np.array_equal(reveal(x), a.astype(to.dtype))

    @examples()
    @given(elements(), RINGS)
    def test_extend_keeps_numbers_below_half(self, engine: Engine, drawn: Any, to: Ring) -> None:
        ring, a = drawn
        a = a >> ring.dtype.type(1)
        if to.bits > ring.bits:
            x = engine.extend(share(engine, a, ring), to)
            assert x.ring == to
            assert np.array_equal(reveal(x), a.astype(to.dtype))

    @examples()
    @given(elements(), st.integers(0, 14))
    def test_truncate_rounds_down_or_one_less(self, engine: Engine, drawn: Any, shift: int) -> None:
        ring, a = drawn
        quarter = ring.signed(a) >> 2
        got = ring.signed(reveal(engine.truncate(share(engine, quarter, ring), shift)))
        assert np.isin(got - (quarter >> shift), (-1, 0)).all()

    def test_shuffle_moves_rows_of_several_arrays_alike(self, engine: Engine) -> None:
        n = 257
        one, two = np.arange(n), np.arange(3 * n).reshape(n, 3)
        three = np.random.default_rng(0).random((n, 70)) < 0.5
        x, y, z = share(engine, one, Z16), share(engine, two, Z64), share_bits(engine, three)
        permutation = engine.permutation(n)
        assert permutation.n == n
        mixed = [engine.shuffle(each, permutation) for each in (x, y, z)]
        order = reveal(mixed[0]).astype(int)
        assert sorted(order) == list(range(n))
        assert not np.array_equal(order, one)
        assert np.array_equal(reveal(mixed[1]), two[order])
        assert np.array_equal(reveal(mixed[2]), three[order])
        for before, after in zip((x, y, z), mixed, strict=True):
            assert np.array_equal(reveal(engine.unshuffle(after, permutation)), reveal(before))
        again = reveal(engine.shuffle(x, engine.permutation(n)))
        assert not np.array_equal(again, order)

    @examples()
    @given(elements(npst.array_shapes(min_dims=1, max_dims=3, max_side=4)), st.data())
    def test_index_sum_and_shape_work_as_numpys(
        self, engine: Engine, drawn: Any, data: Any
    ) -> None:
        ring, a = drawn
        x = share(engine, a, ring)
        axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
        index = data.draw(npst.basic_indices(a.shape, allow_newaxis=True))
        rows = data.draw(npst.integer_array_indices(a.shape[:1]))
        mask = data.draw(npst.arrays(np.bool_, a.shape))
        order = data.draw(st.permutations(range(a.ndim)))
        for got, wanted in (
            (x[index], a[index]),
            (x[rows], a[rows]),
            (x[mask], a[mask]),
            (x[..., rows[0] % a.shape[-1]], a[..., rows[0] % a.shape[-1]]),
            (x.sum(), a.sum(dtype=ring.dtype)),
            (x.sum(axis), a.sum(axis, dtype=ring.dtype)),
            (x.sum(axis, keepdims=True), a.sum(axis, dtype=ring.dtype, keepdims=True)),
            (x.cumsum(axis), a.cumsum(axis, dtype=ring.dtype)),
            (x.reshape(-1), a.reshape(-1)),
            (x.transpose(), a.T),
            (x.transpose(*order), a.transpose(*order)),
            (x.broadcast_to((2, *a.shape)), np.broadcast_to(a, (2, *a.shape))),
            (concatenate([x, x + 1], axis), np.concatenate([a, a + ring.encode(1)], axis)),
            (stack([x, x + 1], axis), np.stack([a, a + ring.encode(1)], axis)),
        ):
            assert np.array_equal(reveal(got), wanted)

    def test_arrays_apart_in_an_index_do_not_touch_the_shares(self, engine: Engine) -> None:
        a = np.arange(24).reshape(2, 3, 4)
        x, rows, columns = share(engine, a, Z32), np.array([0, 1, 1]), np.array([3, 0, 2])
        assert np.array_equal(reveal(x[rows, :, columns]), a[rows, :, columns])
        assert np.array_equal(reveal(x[1, :, columns]), a[1, :, columns])

    def test_an_axis_out_of_range_is_refused(self, engine: Engine) -> None:
        x = share(engine, np.zeros((2, 3), dtype=int), Z32)
        for axis in (2, -3):
            with pytest.raises(np.exceptions.AxisError):
                x.sum(axis)
            with pytest.raises(np.exceptions.AxisError):
                concatenate([x, x], axis)

    def test_an_undeclared_opening_is_refused(self, engine: Engine) -> None:
        x = share(engine, np.arange(3), Z32)
        everyone = engine.everyone
        zero, one = f"{everyone} 0", f"{everyone} 1"
        engine.leakage = Leakage([Opening("sum", one, (3,), independent="a test")])
        for name, to in (("total", one), ("sum", everyone), ("sum", zero)):
            with pytest.raises(LeakageError):
                engine.open(x, name, to)
        with pytest.raises(LeakageError):
            engine.open(x[:2], "sum", one)
        assert np.array_equal(engine.open(x, "sum", one), np.arange(3))
        with pytest.raises(LeakageError):
            engine.open(x, "sum", one)

    def test_shares_have_the_engines_axes(self, engine: Engine) -> None:
        x, bits = share(engine, np.zeros((2, 3), int), Z32), engine.random_bits((4, 70))
        assert len(engine.share_shape) == engine.share_axes
        assert x.data.shape == (*engine.share_shape, 2, 3)
        assert bits.data.shape == (*engine.share_shape, 4, 2)

    def test_secrets_are_silent(self, engine: Engine) -> None:
        bits = np.array([True, False])
        for x in (share(engine, np.array([17, 23]), Z32), share_bits(engine, bits)):
            looks = [
                bool, int, float, complex, list, iter, hash, np.asarray, np.sum, pickle.dumps,
                copy, deepcopy, sorted, "abc".__getitem__, np.arange(3).__getitem__, range,
                lambda v: v in [v + 0] if isinstance(v, Secret) else bool(v),
            ]  # fmt: skip
            for look in looks:
                with pytest.raises((SecretError, TypeError)):
                    look(x)
            for shown in (repr(x), str(x), f"{x}", f"{x:>40}", "%s" % x, f"{x!r}"):  # noqa: UP031
                assert shown == repr(x)
                assert "17" not in shown.replace("Z_2^32", "")
                assert "True" not in shown
            assert len(x) == 2

    def test_every_primitive_costs_what_it_declares(self, engine: Engine) -> None:
        for primitive, public, action in _primitives(engine):
            declared = engine.cost(primitive, **public)
            assert metered(engine, action) == declared, (primitive, public)

    @pytest.mark.parametrize("other", [clear, ENGINES["two peers"], three_servers])
    def test_what_belongs_to_another_engine_is_refused(
        self, engine: Engine, other: Callable[[], Engine]
    ) -> None:
        refused = mixed_calls(engine, other())

        def attempt() -> None:
            for name, arguments in refused:
                with pytest.raises(HedgerowError, match="H702") as caught:
                    getattr(engine, name)(*arguments)
                assert "of another engine" in str(caught.value), name
                # By name as well as by place.
                names = inspect.signature(getattr(engine, name)).parameters
                with pytest.raises(HedgerowError, match="H702"):
                    getattr(engine, name)(**dict(zip(names, arguments, strict=True)))

        assert metered(engine, attempt) == NOTHING

    def test_an_engine_stays_in_its_thread(self, engine: Engine) -> None:
        refused = calls(engine)

        def attempt() -> None:
            for name, arguments in refused:
                with pytest.raises(HedgerowError, match="H703"):
                    getattr(engine, name)(*arguments)

        with ThreadPoolExecutor(1) as pool:
            assert metered(engine, pool.submit(attempt).result) == NOTHING
        # Refusals change nothing: the engine goes on where it is at home.
        assert np.array_equal(reveal(share(engine, np.arange(3), Z32)), np.arange(3))


def _primitives(engine: Engine) -> list[tuple[str, dict[str, Any], Any]]:
    """Calls of every primitive that may send, with the parameters of its cost."""
    numbers, ones, permutation = (
        np.arange(35).reshape(7, 5),
        np.ones((3, 70)),
        engine.permutation(7),
    )
    bits, seven_rows = share_bits(engine, ones), share_bits(engine, np.ones((7, 70)))
    found: list[tuple[str, dict[str, Any], Any]] = [
        ("and_", {"shape": (3, 70)}, partial(engine.and_, bits, bits[:1])),
        ("open", {"shape": (3, 70), "ring": None, "to": engine.everyone}, partial(reveal, bits)),
        ("input_bits", {"shape": (3, 70), "owner": 0}, partial(share_bits, engine, ones)),
        ("random_bits", {"shape": (3, 70)}, partial(engine.random_bits, (3, 70))),
        ("permutation", {"shape": (7,)}, partial(engine.permutation, 7)),
        ("shuffle", {"shape": (7, 70)}, partial(engine.shuffle, seven_rows, permutation)),
        ("unshuffle", {"shape": (7, 70)}, partial(engine.unshuffle, seven_rows, permutation)),
    ]
    for ring in (Z16, Z32, Z64):
        x, seven = share(engine, numbers, ring), {"shape": (7, 5), "ring": ring}
        found += [
            ("input", seven | {"owner": 0}, partial(share, engine, numbers, ring)),
            ("mul", seven, partial(engine.mul, x, x[:1])),
            (
                "matmul",
                {"shape": (7, 7), "ring": ring, "inner": 5},
                partial(engine.matmul, x, x.transpose()),
            ),
            ("addends", {"shape": (7, 5), "bits": 13}, partial(engine.addends, x, 13)),
            ("truncate", seven | {"shift": 3}, partial(engine.truncate, x, 3)),
            ("open", seven | {"to": engine.everyone}, partial(reveal, x)),
            ("shuffle", seven, partial(engine.shuffle, x, permutation)),
            ("unshuffle", seven, partial(engine.unshuffle, x, permutation)),
            ("b2a", {"shape": (3, 70), "ring": ring}, partial(engine.b2a, bits, ring)),
            (
                "mul_bits",
                {"shape": (2, 70), "ring": ring, "bits": 3},
                partial(engine.mul_bits, share(engine, np.ones((2, 70), int), ring), bits),
            ),
        ]
        larger = [to for to in (Z32, Z64) if to.bits > ring.bits]
        found += [
            ("extend", {"shape": (7, 5), "ring": to, "source": ring}, partial(engine.extend, x, to))
            for to in larger
        ]
    return found
