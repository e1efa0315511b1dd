"""Tables as trees: every entry is answered, by thresholds along numbers and sets of categories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.tables import Attribute, Domain, Target
from hedgerow.trees.additive import table_tree
from hedgerow.trees.layout import SplitKind

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 7), bins=7, missing="own bin"),
        Attribute(name="colour", kind="categorical", categories=tuple("abcde")),
    ),
    target=Target(name="y", bounds=(-1, 1)),
)
BINS = DOMAIN.n_bins.tolist()
EVERY = np.stack(np.meshgrid(*map(np.arange, BINS), indexing="ij"), axis=-1).reshape(-1, 2)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_tree_answers_with_its_table(data: st.DataObject) -> None:
    features = data.draw(st.sampled_from([(0,), (1,), (0, 1)]))
    shape = tuple(BINS[feature] for feature in features)
    levels = data.draw(
        st.lists(st.integers(0, 3), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
    )
    table = np.array(levels, dtype=np.float64).reshape(shape) / 7
    tree = table_tree(DOMAIN, features, table)
    found = tree.decide(EVERY.astype(DOMAIN.dtype))[:, 0]
    assert np.array_equal(found, table[tuple(EVERY[:, feature] for feature in features)])


def test_numbers_are_cut_by_thresholds_and_categories_by_sets() -> None:
    along = table_tree(DOMAIN, (0,), np.repeat([1.0, 2.0, 3.0], [3, 3, 2]))
    assert set(along.kind.tolist()) == {SplitKind.LEAF, SplitKind.THRESHOLD}
    assert along.n_leaves == 3
    mixed = table_tree(DOMAIN, (1,), np.array([1.0, 0.0, 1.0, 0.0, 1.0]))
    assert mixed.n_leaves == 2
    assert SplitKind.SUBSET in mixed.kind


def test_a_constant_is_one_leaf() -> None:
    tree = table_tree(DOMAIN, (0, 1), np.full(BINS, 0.25))
    assert tree.n_nodes == 1
    assert tree.value[0, 0] == pytest.approx(0.25)
