"""`VerticalID3Classifier` on secret counts: the same tree, and less that others learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from hedgerow import ID3Classifier, VerticalID3Classifier
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.privacy import Relation
from hedgerow.protocols.vertical_id3.leakage import OF_QUESTIONS, THEOREM_2
from tests.estimators.test_vertical_id3 import DOMAIN, X, Y


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("class_at", [0, -1, "all"])
def test_it_is_id3(engine: str, class_at: int | str) -> None:
    model = VerticalID3Classifier(
        n_sites=3, class_at=class_at, cardinality="secret", engine=engine
    ).fit(X, Y)
    alone = ID3Classifier().fit(X, Y)
    assert model.joined_tree() == alone.tree_
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))
    # Two classes, eight nodes; below the root 10 values are left, below outlook 7, twice.
    assert model.intersections_ == 2 * 8 + 2 * (10 + 7 + 7)
    assert model.encryptions_ == 0
    assert (model.server_traffic_.rounds > 0) == (engine == "simulate")


def test_sites_learn_less_than_with_the_cipher() -> None:
    published = VerticalID3Classifier(n_sites=3).fit(X, Y)
    secret = VerticalID3Classifier(n_sites=3, cardinality="secret").fit(X, Y)
    assert secret.joined_tree() == published.joined_tree()
    assert list(secret.what_was_learned_) == ["site 0", "site 1", "site 2", "server"]
    assert "server" not in published.what_was_learned_
    names = [
        {row["name"] for rows in model.what_was_learned_.values() for row in rows}
        for model in (published, secret)
    ]
    gone = {name for name in names[0] - names[1] if "sub-intersections" in name}
    assert gone
    assert "best gain of another site" in names[0] - names[1]
    assert len(secret.what_was_learned_["server"]) == 2
    for who in ("site 0", "server 1"):
        assert secret.privacy_.total(who).epsilon == float("inf")
    together = secret.privacy_.total("server").why
    assert together.count("two servers together hold every share") == 1
    assert "theorem 1: structure of the tree" in together


def test_too_large_an_epsilon_is_told_in_the_terms_of_the_parameter() -> None:
    options = {"domain": DOMAIN, "max_depth": 1, "cardinality": "secret"}
    # Class counts of two levels and four attributes.
    with pytest.raises(HedgerowError, match=r"at most epsilon 3072 .*6 tables.*epsilon=4000"):
        VerticalID3Classifier(epsilon=4000.0, **options).fit(X, Y)
    VerticalID3Classifier(epsilon=3072.0, engine="clear", **options).fit(X, Y)


def test_tables_of_sites_are_aligned_by_id() -> None:
    left = X[["outlook", "temperature"]].sample(frac=1, random_state=1)
    right = X[["humidity", "wind"]].iloc[2:]
    model = VerticalID3Classifier(cardinality="secret").fit_sites(
        [left, right], [Y[left.index], None], [left.index.to_numpy(), right.index.to_numpy()]
    )
    kept = np.arange(2, 14)
    alone = ID3Classifier(domain=model.domain_).fit(X.iloc[kept], Y.iloc[kept])
    assert model.joined_tree() == alone.tree_


def test_noise_holds_for_the_public_and_for_what_records_say_towards_the_sites() -> None:
    options = {"epsilon": 2.0, "domain": DOMAIN, "max_depth": 2}
    model = VerticalID3Classifier(cardinality="secret", **options).fit(X, Y)
    ledger = model.privacy_
    assert ledger.total("public").epsilon == pytest.approx(2.0)
    assert ledger.formal_total("site 0", Relation.REPLACE).epsilon == pytest.approx(4.0)
    assert ledger.total("site 0").epsilon == float("inf")
    for audience in ("site 0", "server 0"):
        assert "nothing hides whether a record is there" in ledger.total(audience).why
    published = VerticalID3Classifier(**options).fit(X, Y)
    assert published.privacy_.formal_total("site 0", Relation.REPLACE).epsilon == float("inf")
    assert model.predict(X).shape == (14,)
    # These were records of the training: which branches they take is exact.
    asked = [who for who, rows in model.what_was_learned_.items() if _of_questions(rows)]
    assert "site 0" in asked
    for who in asked:
        found = ledger.formal_total(who, Relation.REPLACE)
        assert found.epsilon == float("inf")
        assert found.why.removeprefix("no finite epsilon: ").split(", ")[0] == THEOREM_2
        assert ledger.total(who).why.startswith(f"{found.why}; the number of aligned records")
    assert "epsilon holds" not in str(ledger)
    assert ledger.total("public").epsilon == pytest.approx(2.0)
    entries = len(ledger.entries)
    model.predict(X)
    assert len(ledger.entries) == entries


def _of_questions(rows: list[dict]) -> bool:
    return bool({row["name"] for row in rows} & set(OF_QUESTIONS))


def test_a_seed_repeats_a_run_and_is_marked() -> None:
    made = VerticalID3Classifier(
        cardinality="secret", epsilon=0.5, domain=DOMAIN, max_depth=2, random_state=3
    )
    trees = []
    for _ in range(2):
        with pytest.warns(HedgerowWarning, match="not private"):
            model = clone(made).fit(X, Y)
        trees.append(model.joined_tree())
        assert model.privacy_.total("public").epsilon == float("inf")
    assert trees[0] == trees[1]


def test_a_fitted_model_can_be_stored_without_the_rows() -> None:
    model = VerticalID3Classifier(cardinality="secret").fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), Y)
    assert again.what_was_learned_["server"] == model.what_was_learned_["server"]
    assert all(site.table.n_records == 0 for site in again.sites_)


@pytest.mark.slow
@pytest.mark.parametrize("cardinality", ["commutative", "secret"])
def test_members_in_processes(cardinality: str) -> None:
    model = VerticalID3Classifier(cardinality=cardinality, engine="processes").fit(X, Y)
    assert np.array_equal(model.predict(X), Y)
    assert cardinality == "commutative" or model.server_traffic_.rounds > 50


@pytest.mark.parametrize(
    "wrong",
    [
        {"cardinality": "open"},
        {"cardinality": "secret", "engine": "abacus"},
        {"engine": "abacus"},
        {"engine": "clear"},
    ],
)
def test_bad_parameters_are_refused(wrong: dict) -> None:
    with pytest.raises(HedgerowError) as caught:
        VerticalID3Classifier(**wrong).fit(X, Y)
    assert caught.value.code is Code.BAD_PARAMETER
