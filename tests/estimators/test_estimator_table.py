"""What all estimators share with those that have no public tree."""

import numpy as np
import pytest

from hedgerow import Attribute, Domain, Target
from hedgerow.errors import Code, HedgerowError
from hedgerow.estimators.table import TableClassifier, TableRegressor

NUMBER = Attribute(name="x", kind="numeric", bounds=(0, 1), bins=2)
CLASSES = Domain(attributes=(NUMBER,), target=Target(name="y", classes=("b", "a")))
BOUNDS = Domain(attributes=(NUMBER,), target=Target(name="y", bounds=(0, 2)))


class Classes(TableClassifier):
    def __init__(self, domain: Domain | None = None) -> None:
        self.domain = domain


class Numbers(TableRegressor):
    def __init__(self, domain: Domain | None = None) -> None:
        self.domain = domain


def test_classes_are_those_of_the_domain_in_its_order() -> None:
    model = Classes(CLASSES)
    encoded = model._encode_training([[0.2], [0.8]], ["a", "b"], CLASSES)
    assert encoded.target.tolist() == [1, 0]
    assert model.classes_.tolist() == ["b", "a"]
    assert model.domain_ == CLASSES


def test_without_a_domain_classes_keep_their_type() -> None:
    model = Classes()
    model._encode_training([[0.2], [0.8]], np.array([3, 1], dtype=np.int16), None)
    assert model.classes_.dtype == np.int16
    assert not model.domain_.is_public


@pytest.mark.parametrize(("kind", "wrong"), [(Classes, BOUNDS), (Numbers, CLASSES)])
def test_the_domain_must_suit_the_task(kind: type, wrong: Domain) -> None:
    with pytest.raises(HedgerowError) as caught:
        kind(wrong)._take_domain(wrong)
    assert caught.value.code is Code.BAD_TARGET


def test_numbers_are_clipped_by_the_domain() -> None:
    assert Numbers(BOUNDS)._encode_training([[0.2]], [9.0], BOUNDS).target.tolist() == [2.0]


def test_one_class_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        Classes()._encode_training([[0.2], [0.8]], [1, 1], None)
    assert caught.value.code is Code.ONE_CLASS
