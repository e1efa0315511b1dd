import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hedgerow.errors import InputError
from hedgerow.secure import circuits, compare
from hedgerow.secure.cost import Cost
from hedgerow.secure.ring import Z16, Z32, Z64, Ring
from hedgerow.secure.secret import Engine, Secret, SecretBits
from tests.secure.engines import metered, reveal, share, share_bits

RINGS = st.sampled_from([Z16, Z32, Z64])
WIDTHS = [1, 2, 3, 7, 8, 16]


class Counting:
    """Stands for an engine in cost functions: bytes are the bits of ANDs, each sent once."""

    n_addends = 2

    def cost(self, primitive: str, **public: object) -> Cost:
        planes, size = public["shape"] if primitive == "and_" else (0, 0)  # type: ignore[misc]
        return Cost.equal(int(primitive == "and_"), planes * size, 2)


def planes_of(values: np.ndarray, bits: int) -> np.ndarray:
    shifts = np.arange(bits, dtype=values.dtype)[:, None]
    return (values.reshape(-1) >> shifts) & values.dtype.type(1) != 0


@settings(max_examples=25, deadline=None)
@given(ring=RINGS, data=st.data())
def test_sum_and_sign_give_the_bits(engine: Engine, ring: Ring, data: st.DataObject) -> None:
    shapes = npst.array_shapes(max_dims=2, max_side=70)
    values = data.draw(npst.arrays(ring.dtype, shapes))
    bits = data.draw(st.sampled_from([None, *WIDTHS, ring.bits]))
    wanted = planes_of(values, bits or ring.bits)
    x = share(engine, values, ring)
    assert np.array_equal(reveal(x.a2b(bits)), wanted)
    assert np.array_equal(reveal(circuits.sign(x.summands(bits))), wanted[-1])


@pytest.mark.parametrize("bits", [*range(1, 18), 33, 64])
def test_the_carry_into_the_top_bit(engine: Engine, bits: int) -> None:
    rng = np.random.default_rng(bits)
    a, b = rng.integers(0, 2, (2, bits, 100)).astype(bool)
    # Long runs of carries, which random bits hardly have.
    b[:, :50] = ~a[:, :50]
    b[0, :25] = a[0, :25] = True
    weights = np.array([1 << j for j in range(bits - 1)], dtype=object)
    low = [(weights * v[:-1].T.astype(int)).sum(axis=1) for v in (a, b)]
    wanted = [total >> (bits - 1) for total in low[0] + low[1]] if bits > 1 else [0] * 100
    x, y = share_bits(engine, a), share_bits(engine, b)
    assert reveal(circuits.carry_into_top(x, y)).astype(int).tolist() == wanted


@pytest.mark.parametrize("bits", [1, 2, 3, 16, 22, 32, 64])
def test_the_carry_tree_has_the_stated_size(bits: int) -> None:
    depth = (bits - 1).bit_length()
    cost = compare.cost_carry_into_top(Counting(), bits, 1)  # type: ignore[arg-type]
    assert cost == Cost.equal(depth, 2 * (bits - 1) - depth, 2)


def test_the_prefix_adder_has_the_stated_size() -> None:
    cost = compare.cost_a2b(Counting(), 1, Z64)  # type: ignore[arg-type]
    assert cost == Cost.equal(6, 2 * 32 * 6 - 63, 2)


def test_one_and_for_each_level(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def count(x: SecretBits, y: SecretBits) -> SecretBits:
        calls.append(x.shape[0])
        return type(engine).and_(engine, x, y)

    x = share(engine, np.arange(5), Z64)
    parts = x.summands()
    monkeypatch.setattr(engine, "and_", count)
    if len(parts) == 2:
        circuits.carry_into_top(*parts)
        assert calls == [63, 31, 15, 7, 3, 1]


@pytest.mark.parametrize("bits", [0, 17, -1])
def test_a_width_outside_the_ring_is_refused(engine: Engine, bits: int) -> None:
    with pytest.raises(InputError, match="H501"):
        share(engine, np.arange(3), Z16).is_negative(bits)


@pytest.mark.parametrize("ring", [Z16, Z32, Z64])
@pytest.mark.parametrize("bits", [None, 1, 11])
def test_costs_are_as_declared(engine: Engine, ring: Ring, bits: int | None) -> None:
    x = share(engine, np.arange(70), ring)
    for function, declare in (
        (Secret.summands, compare.cost_summands),
        (Secret.a2b, compare.cost_a2b),
        (lambda x, bits: circuits.sign(x.summands(bits)), compare.cost_msb),
    ):
        declared = declare(engine, 70, ring, bits)
        assert metered(engine, lambda f=function: f(x, bits)) == declared
