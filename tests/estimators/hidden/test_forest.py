"""`HiddenForestClassifier`: budgets, accuracy, refusals, scikit-learn's checks."""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import Attribute, Domain, HiddenForestClassifier, Target
from hedgerow.errors import Code, HedgerowError, HedgerowWarning, PrivacyError

CAPACITY = 1200
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=(0, 1), bins=6) for i in range(3)
    ),
    target=Target(name="y", classes=("no", "yes")),
    capacity=CAPACITY,
)


def data(n: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    return X, np.where(X[:, 0] > 0.5, "yes", "no")


def forest(**options: object) -> HiddenForestClassifier:
    return HiddenForestClassifier(
        **{"domain": DOMAIN, "engine": "clear", "max_depth": 2, **options}
    )


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_votes_are_counted_and_refused_when_spent(engine: str) -> None:
    X, y = data()
    model = forest(noise="votes", queries=120, epsilon=240.0, n_estimators=15, engine=engine)
    model.fit(X, y)
    assert model.answers_left() == 120
    assert np.mean(model.predict(X[:80]) == y[:80]) > 0.85
    assert model.answers_left() == 40
    before = model.privacy_.to_json()
    with pytest.raises(PrivacyError, match=r"H207.*80 more asked for, 40 left"):
        model.predict(X[:80])
    assert model.privacy_.to_json() == before
    assert len(model.runs_) == 2
    model.predict(X[:40])
    assert model.answers_left() == 0
    with pytest.raises(PrivacyError, match="H207"):
        model.predict(X[:1])
    total = model.privacy_.total("analyst")
    assert total.epsilon == pytest.approx(240.0, rel=1e-12)
    assert 0 < total.delta < 2.0**-50
    assert model.privacy_.realised_total("analyst").epsilon == pytest.approx(240.0)
    assert not hasattr(model, "predict_proba")
    assert [row["values"] for row in model.what_was_learned()] == [80, 40]
    assert model.what_was_learned("server 0") == []


def test_a_delta_lowers_the_noise_of_votes() -> None:
    with pytest.warns(HedgerowWarning, match="close to guesses"):
        plain, granted = (
            forest(noise="votes", queries=1000, epsilon=1.0, delta=delta).plan(DOMAIN)
            for delta in (0.0, 1e-6)
        )
    assert plain.query_epsilon == pytest.approx(1e-3)
    assert granted.query_epsilon > 5e-3
    X, y = data(300)
    with pytest.warns(HedgerowWarning, match="close to guesses"):
        model = forest(noise="votes", queries=1000, epsilon=1.0, delta=1e-6).fit(X, y)
    assert model.privacy_.tightest("analyst", 1e-6).epsilon <= 1.0
    model.predict(X[:10])
    assert model.answers_left() == 990
    assert "RDP" in str(model.privacy_) or "optimal" in str(model.privacy_)


def test_votes_that_drown_in_noise_are_told_beforehand() -> None:
    wet = {"noise": "votes", "n_estimators": 10, "queries": 1000, "epsilon": 8.0}
    for act in (lambda: forest(**wet).plan(DOMAIN), lambda: forest(**wet).fit(*data(60))):
        with pytest.warns(HedgerowWarning) as caught:
            act()
        (told,) = caught
        assert told.filename == __file__
        text = str(told.message)
        # Noise of scale 2 Q / epsilon, and half of the trees is 5.
        assert "scale 250, and a class leads by at most 10 votes" in text
        assert "queries=20, or epsilon=400" in text
    # At the border there is no warning, which would be an error here.
    for dry in ({"queries": 20}, {"epsilon": 400.0}, {"n_estimators": 500}):
        forest(**wet | dry).plan(DOMAIN)
    with pytest.warns(HedgerowWarning, match="scale 5.25"):
        forest(**wet | {"queries": 21}).plan(DOMAIN)


@pytest.mark.parametrize(
    ("wrong", "found", "fix"),
    [
        ({"max_features": 9}, "max_features=9", "leave max_features out"),
        (
            {"max_features": 2, "branching": "wary"},
            "max_features=2 with branching='wary'",
            "choose branching='binary', or leave max_features out",
        ),
        (
            {"sampling": "poisson", "noise": "votes"},
            "noise='votes' with sampling='poisson'",
            "choose sampling='disjoint'",
        ),
        ({"sample_rate": 0.5}, "with sampling='disjoint'", "set sampling='poisson'"),
        ({"sampling": "poisson", "sample_rate": 2.0}, "sample_rate=2.0", "correct sample_rate"),
        ({"sampling": "poisson", "sample_rate": 0}, "sample_rate=0", "correct sample_rate"),
    ],
)
def test_refusals_name_the_parameter_and_what_helps(
    wrong: dict[str, object], found: str, fix: str
) -> None:
    with pytest.raises(HedgerowError) as caught:
        forest(**wrong).plan(DOMAIN)
    assert caught.value.code is Code.BAD_PARAMETER
    assert found in caught.value.found
    assert fix in caught.value.fix


@pytest.mark.parametrize("sampling", ["disjoint", "poisson"])
@pytest.mark.parametrize("extra_trees", [False, True])
@pytest.mark.parametrize("branching", ["binary", "wary"])
def test_the_whole_budget_is_epsilon(sampling: str, extra_trees: bool, branching: str) -> None:
    X, y = data()
    model = forest(
        epsilon=3.0,
        n_estimators=4,
        sampling=sampling,
        extra_trees=extra_trees,
        branching=branching,
        max_depth=1,
    ).fit(X, y)
    total = model.privacy_.total("analyst")
    assert total.epsilon == pytest.approx(3.0, rel=1e-9)
    assert total.epsilon <= 3.0 * (1 + 1e-12)
    assert model.answers_left() is None
    shares = model.predict_proba(X[:50])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(X[:50]), model.classes_[shares.argmax(axis=1)])
    if sampling == "poisson":
        claimed = model.privacy_.claimed_total("analyst")
        assert claimed is not None
        assert claimed < total.epsilon
        each = claimed  # four trees at rate 1/4
        assert total.epsilon == pytest.approx(4 * math.log(1 + (math.exp(each) - 1) / 4), rel=1e-6)


def test_noise_at_the_leaves_has_no_epsilon_unless_the_splits_are_drawn() -> None:
    X, y = data(300)
    assert forest(noise="leaves").fit(X, y).privacy_.total("analyst").epsilon == math.inf
    drawn = forest(noise="leaves", extra_trees=True).fit(X, y)
    assert drawn.privacy_.total("analyst").epsilon == pytest.approx(1.0)


def test_accuracy_on_a_simple_table() -> None:
    X, y = data()
    for options in (
        {"noise": "none"},
        {"noise": "none", "max_features": 2, "max_depth": 3},
        {"noise": "splits+leaves", "epsilon": 8.0, "n_estimators": 5, "criterion": "gini"},
        {"noise": "splits+leaves", "epsilon": 40.0, "n_estimators": 5, "sampling": "poisson"},
    ):
        assert forest(**options).fit(X, y).score(X, y) > 0.9


@pytest.mark.slow
def test_processes_count_answers_too() -> None:
    X, y = data(120)
    model = forest(
        noise="votes", queries=5, epsilon=50.0, n_estimators=3, max_depth=1, engine="processes"
    ).fit(X, y)
    assert model.predict(X[:3]).shape == (3,)
    assert model.answers_left() == 2
    with pytest.raises(HedgerowError, match="H207"):
        model.predict(X[:3])
    assert model.answers_left() == 2


def test_copies_of_a_model_carry_its_ledger() -> None:
    X, y = data(120)
    model = forest(noise="votes", queries=5, epsilon=5.0).fit(X, y)
    model.predict(X[:3])
    again = pickle.loads(pickle.dumps(model))
    assert again.answers_left() == 2
    assert not hasattr(clone(model), "privacy_")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_estimators": 0},
        {"queries": 0},
        {"delta": 1.0},
        {"sampling": "poisson", "sample_rate": 0.0},
        {"sampling": "poisson", "sample_rate": 2.0},
        {"sampling": "poisson", "sample_rate": "often"},
        {"sampling": "poisson", "noise": "votes"},
        {"noise": "some"},
        {"max_features": 0},
        {"max_features": 9},
        {"max_depth": 0},
        {"extra_trees": 1},
        {"public_seed": -1},
        {"split_share": 1.0},
    ],
)
def test_parameters_that_do_not_fit_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(HedgerowError, match="H501"):
        forest(**wrong).fit(*data(30))


@parametrize_with_checks(
    [
        HiddenForestClassifier(
            noise="none",
            insecure_domain_from_data=True,
            max_depth=3,
            n_estimators=3,
            engine="clear",
        ),
        HiddenForestClassifier(
            epsilon=100.0, insecure_domain_from_data=True, max_depth=1, n_estimators=2
        ),
    ]
)
@pytest.mark.filterwarnings("ignore::hedgerow.errors.HedgerowWarning")
def test_scikit_learn_checks(estimator: BaseEstimator, check: object) -> None:
    check(estimator)
