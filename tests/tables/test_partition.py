import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hedgerow.errors import HedgerowError
from hedgerow.tables import (
    Attribute,
    Domain,
    Encoded,
    Target,
    encode,
    horizontal,
    vertical,
)
from tests.tables.table_strategies import encodeds, records, relaxed

KEY = b"0123456789abcdef"
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="numeric", bounds=(0, 100), bins=50) for name in "abc"
    ),
    target=Target(name="y", classes=(0, 1)),
)


def table(n=20, ids=True):
    rng = np.random.default_rng(n)
    X = rng.uniform(0, 100, size=(n, 3))
    return encode(X, DOMAIN, rng.integers(0, 2, size=n), ids=np.arange(n) if ids else None)


def shuffled(encoded, data):
    order = data.draw(st.permutations(range(encoded.n_slots)))
    return encoded.rows(np.array(order, dtype=np.intp))


@relaxed
@given(encodeds(), st.integers(1, 5))
def test_horizontal_loses_nothing(encoded, owners):
    parts = horizontal(encoded, owners, KEY)
    assert len(parts) == owners
    assert all(part.present.all() for part in parts)
    found = sorted((r for part in parts for r in records(part)), key=lambda record: record[0])
    assert found == records(encoded)


@relaxed
@given(encodeds(all_present=True), st.integers(1, 5), st.data())
def test_the_part_depends_on_the_record_alone(encoded, owners, data):
    def owner_of(whole):
        parts = horizontal(whole, owners, KEY)
        return {i: owner for owner, part in enumerate(parts) for i in part.ids.tolist()}

    before = owner_of(encoded)
    assert owner_of(shuffled(encoded, data)) == before
    if encoded.n_slots:
        gone = data.draw(st.integers(0, encoded.n_slots - 1))
        rest = encoded.rows(np.delete(np.arange(encoded.n_slots), gone))
        lost = encoded.ids[gone].item()
        assert owner_of(rest) == {i: o for i, o in before.items() if i != lost}


@pytest.mark.parametrize("ids", [np.arange(50), np.array([f"person {i}" for i in range(50)])])
def test_the_hash_is_keyed_blake2(ids):
    encoded = encode(np.zeros((50, 3)), DOMAIN, ids=ids)
    parts = horizontal(encoded, 3, KEY)
    for i in ids.tolist():
        text = b"s" + i.encode() if isinstance(i, str) else b"i" + i.to_bytes(8, "little")
        digest = hashlib.blake2b(text, key=KEY, digest_size=8, person=b"hedgerow rows").digest()
        assert i in parts[int.from_bytes(digest, "little") % 3].ids


def test_parts_are_of_similar_size_and_change_with_the_key():
    encoded = table(6000)
    sizes = [part.n_slots for part in horizontal(encoded, 3, KEY)]
    assert stats.chisquare(sizes).pvalue > 1e-3
    other = horizontal(encoded, 3, KEY[::-1])
    assert other[0].ids.tolist() != horizontal(encoded, 3, KEY)[0].ids.tolist()


@pytest.mark.parametrize(
    ("owners", "key", "ids", "number"),
    [
        (0, KEY, True, "H501"),
        (2, b"short", True, "H501"),
        (2, b"k" * 65, True, "H501"),
        (2, KEY, False, "H111"),
    ],
)
def test_horizontal_refused(owners, key, ids, number):
    with pytest.raises(HedgerowError, match=number):
        horizontal(table(ids=ids), owners, key)


def test_vertical():
    encoded = table()
    first, second = vertical(encoded, [["c", "a"], [1]], target_at=1)
    assert first.domain.names == ("c", "a")
    assert first.target is None
    assert first.domain.target is None
    assert second.domain.target == DOMAIN.target
    np.testing.assert_array_equal(second.target, encoded.target)
    np.testing.assert_array_equal(first.bins, encoded.bins[:, [2, 0]])
    np.testing.assert_array_equal(first.ids, second.ids)


@pytest.mark.parametrize(
    ("groups", "target_at", "number"),
    [
        ([["a", "b"], ["b", "c"]], 0, "H106"),
        ([["a", "b", 0], ["c"]], 0, "H106"),
        ([["a"], ["b"]], 0, "H107"),
        ([["a"], ["b", "c", "d"]], 0, "H107"),
        ([["a", "b", "c"], []], 0, "H501"),
        ([["a"], ["b", "c"]], 2, "H501"),
        ([["a"], ["b", "c"]], -1, "H501"),
        ([], 0, "H501"),
    ],
)
def test_vertical_refused(groups, target_at, number):
    with pytest.raises(HedgerowError, match=number):
        vertical(table(), groups, target_at=target_at)


@relaxed
@given(encodeds(), st.data())
def test_columns_beside_columns_are_the_table(encoded, data):
    columns = data.draw(st.permutations(range(encoded.n_features)))
    cut = data.draw(st.integers(1, encoded.n_features))
    groups = [group for group in (columns[:cut], columns[cut:]) if group]
    target_at = data.draw(st.integers(0, len(groups) - 1))
    parts = vertical(encoded, groups, target_at=target_at)
    together = Encoded(
        domain=encoded.domain,
        bins=np.asfortranarray(
            np.hstack([part.bins for part in parts])[:, np.argsort(columns)],
            dtype=encoded.domain.dtype,
        ),
        target=parts[target_at].target,
        present=parts[0].present,
        ids=parts[0].ids,
    )
    assert records(together) == records(encoded)
    assert all(np.array_equal(part.ids, encoded.ids) for part in parts)
