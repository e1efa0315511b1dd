"""Tables that several owners bring."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hedgerow.errors import Code, HedgerowError
from tests.estimators.hidden.test_tree import DOMAIN, ILL, ROWS, code_of, model_of

IDS = np.arange(1000, 1200)
WHOLE = model_of().fit(ROWS, ILL).predict(ROWS)
FIRST = slice(0, 60)
REST = slice(60, 200)


def columns(order: int = 1):
    """Age and target at one owner, the ward at another, each in an order of its own."""
    left, right = np.random.default_rng(order).permuted(np.tile(np.arange(200), (2, 1)), axis=1)
    return (
        [ROWS[["age"]].iloc[left], ROWS[["ward"]].iloc[right]],
        [ILL[left], None],
        [IDS[left], IDS[right]],
    )


def test_owners_of_rows_train_what_one_table_trains() -> None:
    parts, ys = [ROWS[FIRST], ROWS[REST]], [ILL[FIRST], ILL[REST]]
    model = model_of().fit_owners(parts, ys, slots=[80, 220])
    np.testing.assert_array_equal(model.predict(ROWS), WHOLE)
    assert model.plan_.n_slots == 300
    # Owners deal their tables before: the run has the three servers alone.
    assert model.meter_.parties == (0, 1, 2)
    # In equal parts the second owner has too little room.
    assert model_of().fit_owners(parts[::-1], ys[::-1]).n_features_in_ == 2
    crowded = [ROWS[:40], ROWS[40:]], [ILL[:40], ILL[40:]]
    assert code_of(model_of().fit_owners, *crowded) is Code.CAPACITY_EXCEEDED


@pytest.mark.parametrize("library", ["pandas", "arrow", "dict"])
def test_owners_of_columns_train_what_one_table_trains(library: str) -> None:
    tables, ys, ids = columns()
    convert = {
        "pandas": lambda table: table,
        "arrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
        "dict": lambda table: {name: table[name].to_numpy() for name in table},
    }[library]
    model = model_of(partition="vertical").fit_owners([convert(t) for t in tables], ys, ids)
    np.testing.assert_array_equal(model.predict(ROWS), WHOLE)
    assert model.n_features_in_ == 2
    assert list(model.feature_names_in_) == ["age", "ward"]
    assert model.classes_.tolist() == ["no", "yes"]


def test_columns_without_names_stand_in_the_order_of_the_domain() -> None:
    tables, ys, ids = columns()
    arrays = [table.to_numpy() for table in tables]
    model = model_of(partition="vertical").fit_owners(arrays, ys, ids)
    np.testing.assert_array_equal(model.predict(ROWS), WHOLE)
    wide = [np.hstack(arrays), arrays[1]]
    assert code_of(model_of(partition="vertical").fit_owners, wide, ys, ids) is Code.MISSING_COLUMN


def test_columns_that_do_not_fit_are_refused() -> None:
    (age, ward), ys, ids = columns()
    fit = model_of(partition="vertical").fit_owners
    assert code_of(fit, [age, ward], ys) is Code.IDS_DO_NOT_ALIGN
    twice = np.append(ids[1][:-1], ids[1][0])
    assert code_of(fit, [age, ward], ys, [ids[0], twice]) is Code.DUPLICATE_ID
    assert code_of(fit, [age, age], ys, ids) is Code.DUPLICATE_COLUMN
    assert code_of(fit, [age], ys[:1], ids[:1]) is Code.MISSING_COLUMN
    assert code_of(fit, [age, ward.rename(columns={"ward": "room"})], ys, ids) is (
        Code.MISSING_COLUMN
    )
    assert code_of(fit, [age, ward], [None, None], ids) is Code.BAD_TARGET
    assert code_of(fit, [age, ward], [ys[0], ys[0]], ids) is Code.BAD_TARGET
    assert code_of(fit, [age, ward], ys, ids, slots=[100, 200]) is Code.CAPACITY_EXCEEDED
    assert code_of(fit, [age, ward], ys, ids, slots=[200]) is Code.WRONG_SHAPE
    assert code_of(fit, [age, ward], ys, ids, slots=[900, 901]) is Code.CAPACITY_EXCEEDED
    assert code_of(fit, [age, ward], ys[:1], ids) is Code.WRONG_SHAPE
    assert code_of(fit, [], [], []) is Code.WRONG_SHAPE


def test_rows_that_do_not_fit_are_refused() -> None:
    fit = model_of().fit_owners
    assert code_of(fit, [ROWS], [ILL], [IDS]) is Code.BAD_PARAMETER
    assert code_of(fit, [ROWS], [ILL], slots=[-1]) is Code.BAD_PARAMETER
    assert code_of(fit, [ROWS], [ILL], slots=[100, 200]) is Code.WRONG_SHAPE
    assert code_of(fit, [ROWS, ROWS[["age"]]], [ILL, ILL]) is Code.MISSING_COLUMN
    assert code_of(model_of(domain=None).fit_owners, [ROWS], [ILL]) is Code.MISSING_DOMAIN
    insecure = model_of(domain=None, insecure_domain_from_data=True)
    assert code_of(insecure.fit_owners, [ROWS], [ILL]) is Code.MISSING_DOMAIN


def test_an_empty_owner_is_refused_and_the_order_of_owners_does_not_matter() -> None:
    assert code_of(model_of().fit_owners, [ROWS, ROWS[:0]], [ILL, ILL[:0]]) is Code.EMPTY_TABLE
    tables, ys, ids = columns()
    model = model_of(partition="vertical").fit_owners(tables[::-1], ys[::-1], ids[::-1])
    np.testing.assert_array_equal(model.predict(pd.DataFrame(ROWS)), WHOLE)
    assert model.domain_ == DOMAIN


def refusal(*arguments, **options):
    """Return the error of a fit on several tables."""
    slots = options.pop("slots", None)
    with pytest.raises(HedgerowError) as caught:
        model_of(**options).fit_owners(*arguments, slots=slots)
    return caught.value


def test_too_few_slots_are_told_to_the_owner_whose_they_are() -> None:
    parts, ys = [ROWS[FIRST], ROWS[REST]], [ILL[FIRST], ILL[REST]]
    given = refusal(parts, ys, slots=[150, 130])
    assert (given.code, given.found) == (Code.CAPACITY_EXCEEDED, "140 rows")
    assert "130 rows of owner 1" in given.expected
    assert "more in slots=" in given.fix
    crowded = refusal([ROWS[:40], ROWS[40:]], [ILL[:40], ILL[40:]])
    assert "pass slots= with a number" in crowded.fix
    many = refusal(parts, ys, slots=[DOMAIN.capacity, 1])
    assert many.fix.startswith("give fewer slots=")
    # What is advised helps.
    model_of().fit_owners(parts, ys, slots=[130, 150])


@pytest.mark.parametrize("owners", [2, 3])
def test_records_that_all_have_are_trained_on(owners: int) -> None:
    """The tree is that of the inner join, in slots of each owner's own number."""
    kept = [slice(0, 150), slice(40, 200), slice(60, 190)][:owners]
    both = slice(max(k.start for k in kept), min(k.stop for k in kept))
    tables = [ROWS[["age"]], ROWS[["ward"]], ROWS[["age", "ward"]]][:owners]
    domain = DOMAIN
    if owners == 3:
        more = DOMAIN.attributes[0].model_copy(update={"name": "again"})
        domain = DOMAIN.model_copy(update={"attributes": (*DOMAIN.attributes, more)})
        tables[2] = ROWS[["age"]].rename(columns={"age": "again"})
    joined = pd.concat(tables, axis=1)[both]
    ys = [ILL[kept[0]]] + [None] * (owners - 1)
    model = model_of(domain=domain, partition="vertical").fit_owners(
        [table[own] for table, own in zip(tables, kept, strict=True)],
        ys,
        [IDS[own] for own in kept],
        slots=[180, 160, 150][:owners],
    )
    assert model.plan_.n_slots == [160, 150][owners - 2]
    whole = model_of(domain=domain).fit(joined, ILL[both])
    asked = pd.concat(tables, axis=1)
    np.testing.assert_array_equal(model.predict(asked), whole.predict(asked))


def test_ids_that_are_missing_or_of_another_kind() -> None:
    tables, ys, ids = columns()
    # Each id is read alone: a text among numbers changes nothing about the others.
    texts = [str(i) for i in ids[1]]
    model = model_of(partition="vertical").fit_owners(tables, ys, [ids[0], texts])
    np.testing.assert_array_equal(model.predict(ROWS), WHOLE)
    none = refusal(tables, ys, [ids[0], None], partition="vertical")
    assert (none.code, none.found) == (Code.IDS_DO_NOT_ALIGN, "ids[1]=None")


def test_targets_of_owners_that_are_missing_or_too_many() -> None:
    tables, ys, ids = columns()
    for wrong in ([None, None], [ys[0], ys[0]]):
        error = refusal(tables, wrong, ids, partition="vertical")
        assert error.code is Code.BAD_TARGET
        assert error.fix == "pass the target at one place of ys and None at the others"
    rows = refusal([ROWS[FIRST], ROWS[REST]], [ILL[FIRST], None])
    assert (rows.code, rows.found) == (Code.BAD_TARGET, "ys[1]=None")
    assert "partition='vertical'" in rows.fix


def test_lists_of_different_lengths() -> None:
    parts, ys = [ROWS[FIRST], ROWS[REST]], [ILL[FIRST], ILL[REST]]
    for error in (refusal(parts, ys[:1]), refusal(parts, ys, slots=[300]), refusal([], [])):
        assert error.code is Code.WRONG_SHAPE
        assert error.fix.startswith("pass lists with one entry for every owner")
