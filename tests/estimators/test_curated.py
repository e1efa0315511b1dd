"""Fits on tables that are larger than memory: `Batches` and Dask collections."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import NotFittedError

from hedgerow import (
    Attribute,
    Batches,
    Domain,
    DPBoostingClassifier,
    DPBoostingRegressor,
    MedianForestClassifier,
    MedianForestRegressor,
    Target,
)
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators.curated import is_large
from hedgerow.privacy import NoiseSource

ATTRIBUTES = (
    Attribute(name="age", kind="numeric", bounds=(0, 100), bins=50),
    Attribute(name="dose", kind="numeric", bounds=(0, 1), bins=20),
)
CLASSES = Domain(
    attributes=ATTRIBUTES, target=Target(name="ill", classes=("no", "yes")), capacity=2000
)
NUMBERS = Domain(attributes=ATTRIBUTES, target=Target(name="cost", bounds=(0, 200)), capacity=2000)
AGE = np.arange(1200) % 100
ROWS = pd.DataFrame({"dose": AGE % 7 / 7, "age": AGE})
WHOLE = ROWS.assign(ill=np.where(AGE > 60, "yes", "no"), cost=2.0 * AGE)
SMALL = {"n_estimators": 2, "max_depth": 4, "max_features": 2}


def seeded(model):
    model._noise = NoiseSource.insecure_seeded(6)
    return model


def code_of(function, *args) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args)
    return caught.value.code


@pytest.mark.parametrize(
    ("kind", "domain", "target"),
    [(MedianForestClassifier, CLASSES, "ill"), (MedianForestRegressor, NUMBERS, "cost")],
    ids=["classifier", "regressor"],
)
def test_batches_and_dask_give_the_forest_of_the_table(
    tmp_path: Path, kind, domain: Domain, target: str
) -> None:
    pq.write_table(pa.Table.from_pandas(WHOLE), tmp_path / "t.parquet")
    expected = seeded(kind(2.0, domain, **SMALL)).fit(ROWS, WHOLE[target])
    dd = pytest.importorskip("dask.dataframe")
    collection = dd.from_pandas(WHOLE, npartitions=1, sort=False)
    batches = Batches(tmp_path, domain)
    for data in (
        (batches,),
        (batches, target),
        (collection,),
        (collection, target),
        (collection[["age", "dose"]], collection[target]),
    ):
        model = seeded(kind(2.0, domain, **SMALL)).fit(*data)
        assert model.forest_ == expected.forest_
        assert list(model.feature_names_in_) == ["age", "dose"] == list(expected.feature_names_in_)
        assert model.n_features_in_ == 2
        assert model.privacy_.formal_total("public").epsilon == pytest.approx(2.0)
        np.testing.assert_array_equal(model.predict(ROWS), expected.predict(ROWS))
    da = pytest.importorskip("dask.array")
    array = da.from_array(ROWS[["age", "dose"]].to_numpy(), chunks=1200)
    label = da.from_array(WHOLE[target].to_numpy(), chunks=1200)
    model = seeded(kind(2.0, domain, **SMALL)).fit(array, label)
    assert model.forest_ == expected.forest_
    assert not hasattr(model, "feature_names_in_")


def test_refusals_come_before_anything_is_charged() -> None:
    batches = Batches([WHOLE], CLASSES)
    model = MedianForestClassifier(1.0, CLASSES, **SMALL)
    assert code_of(model.fit, batches, WHOLE.ill) is Code.WRONG_TYPE
    assert code_of(model.fit, batches, "cost") is Code.WRONG_TYPE
    assert code_of(model.fit, Batches([WHOLE], NUMBERS)) is Code.BAD_DOMAIN
    assert code_of(MedianForestClassifier().fit, batches) is Code.MISSING_DOMAIN
    draft = MedianForestClassifier(insecure_domain_from_data=True)
    assert code_of(draft.fit, batches) is Code.MISSING_DOMAIN
    assert code_of(MedianForestRegressor(1.0, CLASSES).fit, batches) is Code.BAD_TARGET
    assert code_of(MedianForestClassifier(1.0, CLASSES, verbose=-1).fit, batches) is (
        Code.BAD_PARAMETER
    )
    small = CLASSES.model_copy(update={"capacity": 1199})
    model = MedianForestClassifier(1.0, small, **SMALL)
    assert code_of(model.fit, Batches([WHOLE], small)) is Code.CAPACITY_EXCEEDED
    assert not hasattr(model, "privacy_")


def test_an_interrupted_fit_keeps_what_it_charged_and_no_earlier_forest() -> None:
    passes = []

    def source() -> list[pd.DataFrame]:
        passes.append(1)
        if len(passes) == 4:
            raise KeyboardInterrupt
        return [WHOLE]

    model = MedianForestClassifier(1.0, CLASSES, **SMALL).fit(ROWS, WHOLE.ill)
    first = model.privacy_
    again = pytest.warns(HedgerowWarning, match="fitted before")
    with again, pytest.raises(KeyboardInterrupt) as caught:
        model.fit(Batches(source, CLASSES, cache_bytes=0))
    assert model.privacy_ is not first
    assert model.privacy_.total("public").epsilon == pytest.approx(1.0)
    assert any("epsilon 1 was charged" in note for note in caught.value.__notes__)
    with pytest.raises(NotFittedError):
        model.predict(ROWS)


@pytest.mark.parametrize(
    ("kind", "domain", "target"),
    [(DPBoostingClassifier, CLASSES, "ill"), (DPBoostingRegressor, NUMBERS, "cost")],
    ids=["classifier", "regressor"],
)
def test_boosting_of_batches_and_dask_is_boosting_of_the_table(
    tmp_path: Path, kind, domain: Domain, target: str
) -> None:
    expected = seeded(kind(2.0, domain, n_estimators=6)).fit(ROWS, WHOLE[target])
    pq.write_table(pa.Table.from_pandas(WHOLE), tmp_path / "t.parquet")
    files = Batches(tmp_path, domain, rows=500, cache_bytes=0)
    pieces = Batches([WHOLE[:700], WHOLE[:0], WHOLE[700:]], domain)
    dd = pytest.importorskip("dask.dataframe")
    collection = dd.from_pandas(WHOLE, npartitions=3, sort=False)
    for data in (
        (files,),
        (files, target),
        (pieces,),
        (collection,),
        (collection, target),
        (collection[["age", "dose"]], collection[target]),
    ):
        model = seeded(kind(2.0, domain, n_estimators=6)).fit(*data)
        assert model.to_json() == expected.to_json()
        assert list(model.feature_names_in_) == ["age", "dose"] == list(expected.feature_names_in_)
        assert model.n_features_in_ == 2
        np.testing.assert_array_equal(model.predict(ROWS), expected.predict(ROWS))


def test_a_sample_of_batches_has_coins_of_its_own_in_each() -> None:
    half = WHOLE[:600]
    twice = Batches([half, half], CLASSES)
    model = seeded(DPBoostingClassifier(50.0, CLASSES, n_estimators=20, subsample=0.5)).fit(twice)
    assert model.score(ROWS, WHOLE.ill) > 0.9
    assert {batch.number for batch in boost_counts(model, twice)} == {0, 1}


def boost_counts(model: DPBoostingClassifier, batches: Batches) -> list:
    return model._read_pieces(batches, None)[0]._batches


def test_boosting_refuses_before_anything_is_charged() -> None:
    batches = Batches([WHOLE], CLASSES)
    model = DPBoostingClassifier(1.0, CLASSES)
    assert code_of(model.fit, batches, WHOLE.ill) is Code.WRONG_TYPE
    assert code_of(model.fit, Batches([WHOLE], NUMBERS)) is Code.BAD_DOMAIN
    assert code_of(DPBoostingClassifier(insecure_domain_from_data=True).fit, batches) is (
        Code.MISSING_DOMAIN
    )
    assert code_of(DPBoostingRegressor(1.0, CLASSES).fit, batches) is Code.BAD_TARGET
    small = CLASSES.model_copy(update={"capacity": 1199})
    model = DPBoostingClassifier(1.0, small)
    assert code_of(model.fit, Batches([WHOLE], small)) is Code.CAPACITY_EXCEEDED
    assert not hasattr(model, "privacy_")


def test_interrupted_boosting_keeps_what_it_charged_and_no_earlier_model() -> None:
    model = DPBoostingClassifier(1.0, CLASSES, n_estimators=4).fit(ROWS, WHOLE.ill)
    first = model.privacy_

    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    model._tell = interrupt
    again = pytest.warns(HedgerowWarning, match="fitted before")
    with again, pytest.raises(KeyboardInterrupt) as caught:
        model.fit(ROWS, WHOLE.ill)
    assert model.privacy_ is not first
    assert model.privacy_.total("public").epsilon == pytest.approx(1.0, rel=1e-3)
    assert any("at delta 1e-06 was charged" in note for note in caught.value.__notes__)
    with pytest.raises(NotFittedError):
        model.predict(ROWS)


def test_a_dask_that_another_thread_is_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", ModuleType("dask"))
    assert not is_large(np.zeros((2, 2)))
