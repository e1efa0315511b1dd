"""The hidden tree: what it refuses, charges and shows, and that it learns."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import train_test_split

from hedgerow import Attribute, CARTClassifier, Domain, HiddenTreeClassifier, Ledger, Target
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.protocols.sharing.join import openings

DOMAIN = Domain(
    attributes=(
        Attribute(name="age", kind="numeric", bounds=(0, 100), bins=10),
        Attribute(name="ward", kind="categorical", categories=("a", "b", "c")),
    ),
    target=Target(name="ill", classes=("no", "yes")),
    capacity=300,
)
ROWS = pd.DataFrame({"age": np.arange(200) % 100, "ward": list("abca") * 50})
ILL = np.where(ROWS.age > 60, "yes", "no")


def code_of(function, *args, **kwargs) -> Code:
    with pytest.raises(HedgerowError) as caught:
        function(*args, **kwargs)
    return caught.value.code


def model_of(**parameters) -> HiddenTreeClassifier:
    return HiddenTreeClassifier(**{"domain": DOMAIN, "noise": "none", "max_depth": 2} | parameters)


@pytest.mark.parametrize("epsilon", [0, math.inf, math.nan, None, True], ids=str)
def test_epsilon_must_be_positive_and_finite(epsilon: object) -> None:
    assert code_of(model_of(epsilon=epsilon).fit, ROWS, ILL) is Code.BAD_EPSILON


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noise", "votes"),
        ("noise", "some"),
        ("max_depth", 0),
        ("max_depth", "deep"),
        ("max_depth", 30),
        ("criterion", "entropy"),
        ("branching", "both"),
        ("mechanism", "gauss"),
        ("leaf_release", "all"),
        ("split_share", 1),
        ("grower", "gardener"),
        ("engine", "gpu"),
        ("n_owners", 0),
        ("n_owners", 301),
        ("partition", "diagonal"),
        ("random_state", -1),
    ],
)
def test_parameters_are_checked(name: str, value: object) -> None:
    assert code_of(model_of(**{name: value}).fit, ROWS, ILL) is Code.BAD_PARAMETER


def test_depth_beyond_the_attributes_is_refused_where_each_is_used_once() -> None:
    assert code_of(model_of(branching="wary", max_depth=3).fit, ROWS, ILL) is Code.BAD_PARAMETER
    assert code_of(model_of(branching="wary", grower="grouped").fit, ROWS, ILL) is (
        Code.BAD_PARAMETER
    )


def test_the_rows_decide_nothing_about_a_refusal_of_the_domain() -> None:
    assert code_of(HiddenTreeClassifier().fit, None, None) is Code.MISSING_DOMAIN
    draft = DOMAIN.model_copy(update={"provenance": "read from data"})
    assert code_of(model_of(domain=draft).fit, None, None) is Code.DOMAIN_READ_FROM_DATA
    assert code_of(model_of(domain="domain.toml").fit, None, None) is Code.BAD_PARAMETER
    endless = DOMAIN.model_copy(update={"capacity": None})
    assert code_of(model_of(domain=endless).fit, ROWS, ILL) is Code.MISSING_CAPACITY


def test_bad_rows_are_refused_and_nothing_is_lost() -> None:
    fit = model_of().fit
    assert code_of(fit, ROWS.assign(ward="z"), ILL) is Code.UNKNOWN_CATEGORY
    assert code_of(fit, ROWS.assign(age=np.nan), ILL) is Code.MISSING_VALUE
    assert code_of(fit, ROWS, np.full(200, "perhaps")) is Code.UNKNOWN_CLASS
    small = DOMAIN.model_copy(update={"capacity": 199})
    assert code_of(model_of(domain=small).fit, ROWS, ILL) is Code.CAPACITY_EXCEEDED
    model_of(domain=DOMAIN.model_copy(update={"capacity": 200})).fit(ROWS, ILL)


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize(
    ("n_owners", "partition"), [(1, "horizontal"), (3, "horizontal"), (2, "vertical")]
)
def test_without_noise_it_is_the_tree_in_the_clear(
    engine: str, n_owners: int, partition: str
) -> None:
    hidden = model_of(criterion="gini", engine=engine, n_owners=n_owners, partition=partition)
    plain = CARTClassifier(domain=DOMAIN, max_depth=2).fit(ROWS, ILL)
    np.testing.assert_array_equal(hidden.fit(ROWS, ILL).predict(ROWS), plain.predict(ROWS))
    assert hidden.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("mechanism", ["discrete", "laplace", "exponential"])
@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_the_ledger_is_the_same_on_every_engine(engine: str, mechanism: str) -> None:
    for noise in ("splits+leaves", "leaves", "none"):
        model = model_of(noise=noise, epsilon=2.0, engine=engine, mechanism=mechanism)
        ledger = model.fit(ROWS, ILL).privacy_
        sound = noise == "splits+leaves" and mechanism == "discrete"
        total = ledger.total("analyst")
        assert total.epsilon == (pytest.approx(2.0) if sound else math.inf)
        assert total.delta < 1e-6
        for audience in ("public", "server 0", "server 1", "server 2", "owner 0"):
            assert ledger.total(audience).epsilon == 0.0
        assert ledger.coalition(["server 0", "server 2"]).epsilon == math.inf
        expected = None if noise == "none" or sound else 2.0
        assert ledger.claimed_total("analyst") == (expected and pytest.approx(expected))
        before = ledger.to_json()
        model.predict(ROWS)
        assert model.privacy_.to_json() == before


def test_a_join_tells_no_owner_whose_records_there_are() -> None:
    model = model_of(noise="splits+leaves", n_owners=2, partition="vertical").fit(ROWS, ILL)
    assert model.privacy_.total("owner 1").epsilon == 0.0
    assert model.privacy_.total("analyst").epsilon == pytest.approx(1.0)
    assert model.privacy_.total("server 0").epsilon == 0.0
    opened = {row["name"] for row in model.what_was_learned("server 0")}
    assert opened == {one.name for one in openings([1, 1], "server")}


def test_seeds_and_domains_from_the_data_are_not_private() -> None:
    with pytest.warns(HedgerowWarning, match="repeatable"):
        first, second = (
            model_of(noise="splits+leaves", random_state=1).fit(ROWS, ILL) for _ in range(2)
        )
    assert first.privacy_.total("server 0").epsilon == math.inf
    np.testing.assert_array_equal(first.predict_proba(ROWS), second.predict_proba(ROWS))
    read = model_of(domain=None, noise="splits+leaves", insecure_domain_from_data=True)
    assert read.fit(ROWS, ILL).privacy_.total("analyst").epsilon == math.inf
    assert read.plan_.n_slots == len(ROWS)


@pytest.mark.parametrize(
    ("parameters", "shows"),
    [
        ({"noise": "splits+leaves"}, True),
        ({"noise": "leaves"}, True),
        ({"noise": "none"}, False),
        ({"noise": "splits+leaves", "leaf_release": "labels"}, False),
        ({"noise": "leaves", "mechanism": "laplace"}, False),
        ({"noise": "leaves", "mechanism": "exponential"}, False),
    ],
    ids=str,
)
def test_probabilities_are_there_where_they_were_released(parameters: dict, shows: bool) -> None:
    model = model_of(**parameters)
    assert hasattr(model, "predict_proba") is shows
    model.fit(ROWS, ILL)
    assert hasattr(model, "predict_proba") is shows
    assert hasattr(model, "predict_log_proba") is shows
    if shows:
        found = model.predict_proba(ROWS)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(ROWS))
    else:
        # Nobody can have it by asking the servers directly.
        assert code_of(model._ask, ROWS, "distribution") is Code.BAD_PARAMETER


def test_nothing_of_the_tree_is_there() -> None:
    model = model_of().fit(ROWS, ILL)
    for name in ("tree_", "to_text", "to_svg", "to_json", "to_sklearn", "apply", "get_depth"):
        assert not hasattr(model, name)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(NotFittedError):
        model_of().predict(ROWS)


def test_one_servers_shares_look_random() -> None:
    # The two shares of every split choice are uniform numbers: small ones are rare.
    model = model_of(max_depth=4).fit(ROWS, ILL)
    for server in model.model_.servers:
        shares = server.shares["splits"]
        assert (shares < 1000).mean() < 0.1
        assert (shares.sum(axis=1, dtype=shares.dtype) < 1000).mean() < 0.1


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_copies_answer_alike_and_clones_are_new(engine: str) -> None:
    model = model_of(noise="splits+leaves", engine=engine).fit(ROWS, ILL)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(ROWS), model.predict(ROWS))
    assert copy.privacy_.to_json() == model.privacy_.to_json()
    assert not hasattr(clone(model), "model_")


def test_every_run_is_recorded() -> None:
    model = model_of(noise="splits+leaves").fit(ROWS, ILL)
    assert model.what_was_learned() == []
    model.predict(ROWS[:5])
    model.predict_proba(ROWS[:7])
    assert [run.what for run in model.runs_] == ["train", "class", "distribution"]
    seen = model.what_was_learned("analyst")
    assert [(row["run"], row["values"]) for row in seen] == [("class", 5), ("distribution", 14)]
    assert all(row["equal"] for run in model.runs_ for row in run.leakage.compare())
    assert model.what_was_learned("server 0") == []
    assert model.meter_ is model.runs_[0].meter
    assert model.meter_.rounds > 50
    assert all(run.seconds > 0 for run in model.runs_)


def test_the_plan_is_that_of_the_fit() -> None:
    model = HiddenTreeClassifier(2.0, DOMAIN)
    assert model.plan(DOMAIN) == model.fit(ROWS, ILL).plan_
    assert Ledger.from_json(model.model_.servers[2].ledger).to_json() == model.privacy_.to_json()


def test_evaluate_counts_as_the_answers_would() -> None:
    model = HiddenTreeClassifier(2.0, DOMAIN).fit(ROWS, ILL)
    charged = model.privacy_.to_json()
    found = model.evaluate(ROWS, ILL, epsilon=None)
    np.testing.assert_array_equal(found.confusion, confusion_matrix(ILL, model.predict(ROWS)))
    assert found.accuracy == model.score(ROWS, ILL)
    assert found.auc == pytest.approx(
        roc_auc_score(ILL == "yes", model.predict_proba(ROWS)[:, 1]), abs=0.1
    )
    assert found.privacy.total("analyst").epsilon == np.inf
    noisy = model.evaluate(ROWS, ILL, epsilon=0.5, ranges=4)
    assert noisy.privacy.total("analyst").epsilon == 0.5
    # Those whom the model was trained on have paid for all of it before.
    assert model.privacy_.to_json() == charged
    assert [run.what for run in model.runs_].count("evaluate") == 2
    # The servers see public slots, however many rows there are.
    few = model.evaluate(ROWS[:3], ILL[:3], epsilon=None)
    assert few.table.sum() == 3
    sent = [run.meter.payload for run in model.runs_ if run.what == "evaluate"]
    assert sent[-1] == sent[0]
    with pytest.raises(HedgerowError, match="H112"):
        model.evaluate(ROWS, ILL, epsilon=1.0, slots=len(ROWS) - 1)
    for epsilon in (0.0, -1.0, np.inf, "much"):
        with pytest.raises(HedgerowError, match="H201"):
            model.evaluate(ROWS, ILL, epsilon=epsilon)


def test_it_learns() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)
    domain = Domain(
        attributes=tuple(
            Attribute(name=f"x{i}", kind="numeric", bounds=(low[i], high[i]), bins=16)
            for i in range(X.shape[1])
        ),
        target=Target(name="benign", classes=(0, 1)),
        capacity=500,
    )
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    exact = HiddenTreeClassifier(domain=domain, noise="none", max_depth=3).fit(train, y_train)
    assert exact.score(test, y_test) > 0.9
    # At epsilon 20 noise hardly moves the choices; failure is far less likely than one in 1e6.
    private = HiddenTreeClassifier(20.0, domain, n_owners=3).fit(train, y_train)
    assert private.score(test, y_test) > 0.8
    assert private.privacy_.total("analyst").epsilon == pytest.approx(20.0)
