"""`VerticalID3Classifier` feels like scikit-learn and is ID3 over several sites."""

import pickle
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import Attribute, Domain, ID3Classifier, Target, VerticalID3Classifier
from hedgerow.errors import Code, HedgerowError, HedgerowWarning

_DAYS = """
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rainy mild high weak yes
rainy cool normal weak yes
rainy cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rainy mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rainy mild high strong no
"""
NAMES = ["outlook", "temperature", "humidity", "wind"]
DAYS = pd.DataFrame([line.split() for line in _DAYS.split("\n") if line], columns=[*NAMES, "play"])
X, Y = DAYS[NAMES], DAYS["play"]
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=tuple(sorted(set(X[name]))))
        for name in NAMES
    ),
    target=Target(name="play", classes=("no", "yes")),
    capacity=20,
)


# With the class everywhere most intersections need no message, which keeps these checks short.
@parametrize_with_checks([VerticalID3Classifier(class_at="all", max_depth=2, max_bins=4)])
@pytest.mark.filterwarnings("ignore::hedgerow.errors.HedgerowWarning")
def test_scikit_learn_checks(estimator: object, check: Callable[[object], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("n_sites", [2, 3])
def test_it_is_id3(n_sites: int) -> None:
    model = VerticalID3Classifier(n_sites=n_sites).fit(X, Y)
    alone = ID3Classifier().fit(X, Y)
    assert model.joined_tree() == alone.tree_
    assert np.array_equal(model.predict(X), alone.predict(X))
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert len(model.sites_) == n_sites
    assert str(model.root_) == "S1L1"
    # Eight nodes with two classes; below the root 10 values are left, below outlook 7, twice.
    assert model.intersections_ == 2 * 8 + 2 * (10 + 7 + 7)
    assert model.encryptions_ > 0


def test_columns_in_groups_and_the_class_anywhere() -> None:
    groups = [["humidity", "wind"], ["outlook", "temperature"]]
    ordered = ID3Classifier().fit(X[["humidity", "wind", "outlook", "temperature"]], Y)
    for class_at in (0, 1, -1, "all"):
        model = VerticalID3Classifier(groups=groups, class_at=class_at).fit(X, Y)
        assert model.columns_ == [[2, 3], [0, 1]]
        assert np.array_equal(model.predict(X), ordered.predict(X[ordered.feature_names_in_]))
        assert model.root_.site == 1


def test_numbers_are_cut_into_bins() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(60, 3))
    labels = (numbers[:, 0] + numbers[:, 2] > 0).astype(int)
    model = VerticalID3Classifier(max_bins=4, max_depth=2).fit(numbers, labels)
    alone = ID3Classifier(max_bins=4, max_depth=2).fit(numbers, labels)
    assert model.joined_tree() == alone.tree_


def test_tables_of_sites_are_aligned_by_id() -> None:
    left = X[["outlook", "temperature"]].sample(frac=1, random_state=1)
    right = X[["humidity", "wind"]].iloc[2:]
    model = VerticalID3Classifier().fit_sites(
        [left, right], [Y[left.index], None], [left.index.to_numpy(), right.index.to_numpy()]
    )
    kept = np.arange(2, 14)
    alone = ID3Classifier(domain=model.domain_).fit(X.iloc[kept], Y.iloc[kept])
    assert model.joined_tree() == alone.tree_
    assert all(sorted(site.table.ids) == kept.tolist() for site in model.sites_)
    assert model.n_records_ == 12
    rows = {row["name"]: row for row in model.what_was_learned_["site 1"]}
    assert rows["which own ids all have"]["values"] == 12
    assert np.array_equal(model.predict(X.iloc[kept]), Y.iloc[kept])


def test_other_numbers_of_rows_need_ids() -> None:
    parts = [X[NAMES[:2]], X[NAMES[2:]].iloc[1:]]
    with pytest.raises(HedgerowError, match=r"14 rows at site 0 and 13 rows at site 1.*ids=") as no:
        VerticalID3Classifier().fit_sites(parts, [Y, None])
    assert no.value.code is Code.IDS_DO_NOT_ALIGN


def test_a_site_may_hold_the_class_alone() -> None:
    tables = [X[["outlook", "temperature"]], X[["humidity", "wind"]], None]
    model = VerticalID3Classifier().fit_sites(tables, [None, None, Y])
    assert np.array_equal(model.predict(X), Y)
    assert {type(node).__name__ for node in model.sites_[2].nodes.values()} == {"Leaf"}


@pytest.mark.parametrize(
    ("ys", "ids", "tables", "code"),
    [
        ([Y, Y, None], None, 3, Code.BAD_SITES),
        ([None, None], None, 2, Code.BAD_SITES),
        ([Y], None, 2, Code.WRONG_SHAPE),
        ([Y, None], [np.arange(14)], 2, Code.WRONG_SHAPE),
        ([Y, None], [np.arange(13), np.arange(14)], 2, Code.WRONG_SHAPE),
        ([Y, None], [np.arange(14), np.arange(14) + 50], 2, Code.IDS_DO_NOT_ALIGN),
        ([Y, None], [np.arange(14), np.zeros(14, dtype=int)], 2, Code.DUPLICATE_ID),
        ([Y, None], None, "same", Code.DUPLICATE_COLUMN),
        ([Y, None], None, "nameless", Code.MISSING_COLUMN),
    ],
)
def test_sites_that_do_not_fit_are_refused(ys, ids, tables, code: Code) -> None:
    parts = {
        2: [X[NAMES[:2]], X[NAMES[2:]]],
        3: [X[NAMES[:1]], X[NAMES[1:2]], X[NAMES[2:]]],
        "same": [X, X],
        "nameless": [X[NAMES[:2]].to_numpy(), X[NAMES[2:]].to_numpy()],
    }[tables]
    with pytest.raises(HedgerowError) as caught:
        VerticalID3Classifier().fit_sites(parts, ys, ids)
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ys": [None, None, None]}, "H755.*at none of 3 sites.*labels in ys at one site"),
        ({"ys": [Y, Y, None]}, "H755.*at 2 of 3 sites.*labels in ys at one site"),
        ({"tables": [X], "ys": [Y], "ids": None}, "H755.*at least two tables.*one table"),
        ({"tables": [X[NAMES[:2]], None, X[NAMES[2:]]]}, "H755.*neither at site 1"),
        ({"ys": [None, None, "play"]}, "H108.*at site 2: y should be a 1d array.* instead. Do"),
        ({"ys": "play"}, "H108.*the text 'play' in ys"),
        ({"ys": [None, None, Y[:-1]]}, "H108.*at site 2: 14 rows and 13 targets"),
        ({"ys": [None, None, [*Y[:-1], None]]}, r"H101.*a class in every row.*site 2.*1 row \("),
        ({"ys": [None, None, [None, *Y[1:]]], "domain": DOMAIN}, "H101.*target in every.*site 2"),
        ({"ys": [None, None, np.linspace(0, 1, 14)]}, "H116.*site 2.*continuous.*regression"),
        ({"ys": [None, None, ["a"] * 14]}, "H502.*single class 'a'.*two classes"),
        ({1: np.arange(14) + 0.5}, r"H109.*at site 1.*astype\('int64'\)"),
        ({1: [*range(13), None]}, "H101.*an id in every row.*at site 1: 1 row"),
        ({1: [*range(13), 0]}, "H110.*at site 1: 2 rows"),
        ({1: None}, "H111.*at site 1: no ids"),
        ({1: np.arange(13)}, "H108.*14 ids.*at site 1: 13"),
        ({1: [f"r{i}" for i in range(14)]}, "H111.*text at site 1, whole numbers at sites 0 and 2"),
    ],
)
def test_what_is_wrong_is_told_with_the_site_and_with_what_helps(wrong: dict, said: str) -> None:
    ids = [wrong.get(i, np.arange(14)) for i in range(3)]
    given = {"tables": [X[NAMES[:1]], X[NAMES[1:2]], X[NAMES[2:]]], "ys": [None, None, Y]}
    given |= {"ids": ids} | {key: wrong[key] for key in ("tables", "ys", "ids") if key in wrong}
    with pytest.raises(HedgerowError, match=said):
        VerticalID3Classifier(domain=wrong.get("domain")).fit_sites(**given)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"n_sites": 1}, Code.BAD_PARAMETER),
        ({"class_at": "some"}, Code.BAD_PARAMETER),
        ({"class_at": 5}, Code.BAD_SITES),
        ({"max_depth": 0}, Code.BAD_PARAMETER),
        ({"ring": "half"}, Code.BAD_PARAMETER),
        ({"answers_to": "nobody"}, Code.BAD_PARAMETER),
        ({"random_state": -1}, Code.BAD_PARAMETER),
        ({"epsilon": 0.0}, Code.BAD_EPSILON),
        ({"epsilon": 1.0}, Code.MISSING_DOMAIN),
        ({"epsilon": 1.0, "domain": DOMAIN}, Code.BAD_SITES),
        ({"groups": [NAMES]}, Code.BAD_SITES),
        ({"groups": [NAMES[:2], NAMES[1:]]}, Code.DUPLICATE_COLUMN),
        ({"groups": [NAMES[:2], NAMES[3:]]}, Code.MISSING_COLUMN),
        ({"n_sites": 6}, Code.BAD_SITES),
    ],
)
def test_bad_parameters_are_refused(wrong: dict, code: Code) -> None:
    with pytest.raises(HedgerowError) as caught:
        VerticalID3Classifier(**wrong).fit(X, Y)
    assert caught.value.code is code


def test_the_class_may_be_for_the_class_site_alone() -> None:
    model = VerticalID3Classifier(answers_to="class site").fit(X, Y)
    open_model = VerticalID3Classifier().fit(X, Y)
    learned = model.what_was_learned_, open_model.what_was_learned_
    with pytest.raises(HedgerowError, match="answers_of_class_site"):
        model.predict(X)
    with pytest.raises(HedgerowError, match=r"answers_to='class site'.*call predict"):
        open_model.answers_of_class_site(X)
    # A question that is refused was not asked.
    assert (model.what_was_learned_, open_model.what_was_learned_) == learned
    assert np.array_equal(model.answers_of_class_site(X), Y)


def test_noise_is_charged_to_the_public_and_protects_from_no_site() -> None:
    model = VerticalID3Classifier(epsilon=2.0, domain=DOMAIN, max_depth=2).fit(X, Y)
    assert model.privacy_.total("public").epsilon == pytest.approx(2.0)
    assert model.privacy_.total("site 0").epsilon == float("inf")
    why = model.privacy_.formal_total("site 0").why
    assert why.startswith("no finite epsilon: number of records, attributes and values")
    assert "lemma 1" in why
    for nobody in ("site 2", "server", "server 0"):
        with pytest.raises(HedgerowError, match=r"H205.*public, site 0, site 1\. Found"):
            model.privacy_.total(nobody)
    assert model.predict(X).shape == (14,)
    with pytest.raises(HedgerowError, match="Expected: a max_depth beside epsilon"):
        VerticalID3Classifier(epsilon=2.0, domain=DOMAIN).fit(X, Y)


@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
def test_without_noise_the_tree_is_exact_for_the_public_too(cardinality: str) -> None:
    options = {"engine": "clear"} if cardinality == "secret" else {}
    exact = VerticalID3Classifier(cardinality=cardinality, **options).fit(X, Y)
    for who in ("public", "site 1"):
        assert exact.privacy_.total(who).epsilon == float("inf")
    assert "the tree and its answers are exact" in str(exact.privacy_)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_class_that_differs_from_site_to_site_is_refused(by_id: bool) -> None:
    parts, ids = [X[NAMES[:2]], X[NAMES[2:]]], [np.arange(14), np.arange(14)]
    other = Y.copy()
    other.iloc[[3, 5]] = ["no", "yes"]
    if by_id:
        # The same rows in another order are the same; one that site 0 has not cannot differ.
        order = np.random.default_rng(4).permutation(14)
        parts[1], other, ids[1] = parts[1].iloc[order], other.iloc[order], order
        parts[0], ids[0] = parts[0].iloc[4:], ids[0][4:]
        same = [Y.iloc[4:], Y.iloc[order]]
    else:
        same = [Y, Y]
    model = VerticalID3Classifier().fit_sites(parts, same, ids if by_id else None)
    assert model.root_ is not None
    differ = "1 of 10 records" if by_id else "2 of 14 records"
    with pytest.raises(HedgerowError, match=f"at site 1 than at site 0 for {differ}") as caught:
        VerticalID3Classifier().fit_sites(parts, [same[0], other], ids if by_id else None)
    assert caught.value.code is Code.BAD_SITES


def test_a_seed_repeats_a_run_and_is_marked() -> None:
    made = VerticalID3Classifier(epsilon=0.5, domain=DOMAIN, max_depth=2, random_state=3)
    with pytest.warns(HedgerowWarning, match="not private"):
        first = clone(made).fit(X, Y)
    with pytest.warns(HedgerowWarning, match="not private"):
        second = clone(made).fit(X, Y)
    assert first.joined_tree() == second.joined_tree()
    assert first.privacy_.total("public").epsilon == float("inf")


def test_a_fitted_model_can_be_stored_without_the_rows() -> None:
    model = VerticalID3Classifier().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), Y)
    assert all(site.table.n_records == 0 for site in again.sites_)


def test_what_was_learned_has_a_table_for_every_site() -> None:
    model = VerticalID3Classifier(n_sites=3).fit(X, Y)
    tables = model.what_was_learned_
    assert list(tables) == ["site 0", "site 1", "site 2"]
    for rows in tables.values():
        frame = pd.DataFrame(rows)
        assert {"name", "times", "values", "why"} <= set(frame.columns)
        assert (frame["times"] > 0).all()
