import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import HedgerowError
from hedgerow.tables import (
    Attribute,
    Domain,
    Encoded,
    Target,
    encode,
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
