import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hedgerow.errors import HedgerowError
from hedgerow.tables import Attribute, Domain, check_capacity, encode, pad
from hedgerow.tables.padding import random_order
from tests.tables.table_strategies import encodeds, records, relaxed


def seeded(seed):
    return random.Random(seed).randbytes


@relaxed
@given(encodeds(), st.integers(0, 20))
def test_padding_places_every_record_once(encoded, spare):
    n_records = int(encoded.present.sum())
    padded = pad(encoded, n_records + spare)
    assert padded.n_slots == n_records + spare
    assert padded.present.sum() == n_records
    assert padded.bins.flags.f_contiguous
    assert padded.bins.dtype == encoded.bins.dtype
    assert records(padded) == records(encoded)
    absent = ~padded.present
    assert not padded.bins[absent].any()
    assert padded.target is None or not padded.target[absent].any()
    assert records(pad(padded, padded.n_slots + 1)) == records(encoded)


def small(capacity=None):
    age = Attribute(name="age", kind="numeric", bounds=(0, 9), bins=9)
    return encode({"age": [1, 5, 9]}, Domain(attributes=(age,), capacity=capacity))


def test_capacity_of_the_domain():
    assert pad(small(capacity=7)).n_slots == 7
    assert pad(small(capacity=7), 5).n_slots == 5
    assert pad(small(capacity=7)).ids is None


def test_refused():
    with pytest.raises(HedgerowError, match="H208"):
        pad(small())
    with pytest.raises(HedgerowError, match=r"H112.*at most 2 rows.*3 rows"):
        pad(small(), 2)
    with pytest.raises(HedgerowError, match="H112"):
        check_capacity(8, 7)
    check_capacity(7, 7)


def test_slots_come_from_the_operating_system():
    first, second = (pad(small(), 10_000).present for _ in range(2))
    assert not np.array_equal(first, second)


def test_order_is_uniform():
    draws = 24_000
    entropy = seeded(5)
    found = [tuple(random_order(4, entropy).tolist()) for _ in range(draws)]
    counts = [found.count(order) for order in itertools.permutations(range(4))]
    assert sum(counts) == draws
    assert stats.chisquare(counts).pvalue > 1e-3


def test_equal_keys_are_drawn_again():
    answers = iter([bytes(16), bytes(8) + b"\x01" * 8])
    assert random_order(2, lambda n: next(answers)).tolist() == [0, 1]
    assert next(answers, None) is None
    assert random_order(0).size == 0
