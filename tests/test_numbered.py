from typing import Annotated, ClassVar

import numpy as np
import pytest
from pydantic import Field, Strict, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.numbered import Numbered


class Inner(Numbered):
    code: ClassVar[Code] = Code.BAD_ATTRIBUTE
    name: str
    size: Annotated[int, Strict(), Field(ge=1)]


class Outer(Numbered):
    code: ClassVar[Code] = Code.BAD_DOMAIN
    inner: Inner
    shape: tuple[int | bool, ...] = ()

    @model_validator(mode="after")
    def _not_four(self):
        if self.inner.size == 4:
            raise ValueError("four is refused")
        return self


def test_valid():
    assert Outer(inner={"name": "a", "size": 2}).inner == Inner(name="a", size=2)
    assert Outer.model_validate({"inner": Inner(name="a", size=2)}).inner.size == 2


def test_numpy_is_plain():
    outer = Outer(inner={"name": "a", "size": np.int32(2)}, shape=np.array([1, 2]))
    assert outer.shape == (1, 2)
    assert type(outer.inner.size) is int


@pytest.mark.parametrize("build", [lambda data: Outer(**data), Outer.model_validate])
def test_inner_error_goes_through(build):
    with pytest.raises(HedgerowError) as caught:
        build({"inner": {"name": "a", "size": 0}})
    assert caught.value.code is Code.BAD_ATTRIBUTE
    assert caught.value.found == "'a': size: Input should be greater than or equal to 1"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_own_validator():
    with pytest.raises(HedgerowError, match=r"H117.*Found: four is refused"):
        Outer(inner=Inner(name="a", size=4))


def test_extra_and_missing_fields():
    words = r"H113.*'a': size: this key is needed; colour: no such key"
    with pytest.raises(HedgerowError, match=words):
        Inner(name="a", colour="red")


def test_a_key_that_is_nearly_known_is_asked_about():
    with pytest.raises(HedgerowError, match=r"sise: no such key is known \(did you mean 'size'"):
        Inner(name="a", size=2, sise=3)


def test_many_problems_are_cut_short():
    with pytest.raises(HedgerowError, match=r"and 3 more"):
        Inner(name="a", size=1, b=1, c=1, d=1, e=1, f=1, g=1)


@pytest.mark.parametrize("junk", [None, 3, "text", [1]])
def test_not_a_mapping(junk):
    with pytest.raises(HedgerowError, match="H117"):
        Outer.model_validate(junk)


def test_equality_and_hash():
    inner = Inner(name="a", size=2)
    assert inner == Inner(name="a", size=np.int8(2))
    assert hash(inner) == hash(Inner(name="a", size=2))
    assert inner != Inner(name="a", size=3)
    assert inner != "a"
    assert Outer(inner=inner, shape=(0, 1)) != Outer(inner=inner, shape=(False, True))
