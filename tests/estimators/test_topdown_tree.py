"""The estimator of DP-TopDown: one owner or several, every method, and its ledger."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from hedgerow import Account, Attribute, Domain, Ledger, Target, TopDownTreeClassifier, read_model
from hedgerow.errors import Code, HedgerowError, HedgerowWarning

BUNCH = load_breast_cancer()
COLUMNS = [0, 1, 7, 20, 22, 27]
X, Y = BUNCH.data[:, COLUMNS], BUNCH.target
BOUNDS = [(5, 30), (8, 40), (0, 0.25), (5, 40), (40, 260), (0, 0.3)]
DOMAIN = Domain(
    attributes=tuple(
        Attribute(name=f"x{i}", kind="numeric", bounds=bounds, bins=16, outside="clip")
        for i, bounds in enumerate(BOUNDS)
    ),
    target=Target(name="benign", classes=(0, 1)),
    capacity=1000,
)
OWNERS = [X[i::3] for i in range(3)], [Y[i::3] for i in range(3)]
METHODS = ("noisy-counts", "local-rnm", "secure-counts")


def _model(**options: object) -> TopDownTreeClassifier:
    return TopDownTreeClassifier(**({"epsilon": 4.0, "domain": DOMAIN} | options))  # type: ignore[arg-type]


def test_one_owner_gets_a_good_tree_and_a_true_ledger() -> None:
    model = _model().fit(X, Y)
    assert model.plan_.method == "single-machine"
    assert model.score(X, Y) > 0.8
    total = model.privacy_.total("public")
    assert total.epsilon <= 4.0
    assert total.epsilon == pytest.approx(4.0)
    assert model.predict_proba(X).shape == (569, 2)


@pytest.mark.parametrize("method", METHODS)
def test_several_owners_pay_epsilon_once(method: str) -> None:
    model = _model(method=method, epsilon=16.0, max_depth=3, n_splits=7)
    model.fit_owners(*OWNERS)
    assert model.score(X, Y) > 0.8
    for audience in ("public", "coordinator"):
        assert model.privacy_.total(audience).epsilon == pytest.approx(16.0)
        assert model.privacy_.total(audience).epsilon <= 16.0
    assert model.plan_.n_owners == 3
    assert model.traffic_.rounds >= 3
    assert (model.secure_run_ is not None) is (method == "secure-counts")


def test_the_default_for_several_owners_is_the_noise_of_one() -> None:
    assert _model().plan(n_owners=3).method == "secure-counts"
    assert _model().plan().method == "single-machine"
    plans = [_model(method=m).plan(n_owners=k) for m, k in (("auto", 1), ("auto", 3))]
    assert plans[0].weigh(1) == plans[1].weigh(1)


def test_seeds_repeat_and_are_marked() -> None:
    trees = []
    for _ in range(2):
        with pytest.warns(HedgerowWarning, match="random_state"):
            model = _model(random_state=3, method="local-rnm").fit_owners(*OWNERS)
        assert model.privacy_.not_private
        trees.append(model.tree_.to_json())
    assert trees[0] == trees[1]


def test_the_model_can_be_read_again(tmp_path: Path) -> None:
    model = _model().fit(X, Y)
    (tmp_path / "model.json").write_text(model.to_json())
    again = read_model(tmp_path / "model.json")
    assert again.model == model.tree_
    assert Ledger.from_json(json.dumps(again.privacy)).releases == model.privacy_.releases


def test_an_account_pays_before_a_row_is_read(tmp_path: Path) -> None:
    account = Account.new(tmp_path / "people.json", epsilon=5.0)
    _model(account=account).fit(X, Y)
    with pytest.raises(HedgerowError) as caught:
        _model(account=account, method="noisy-counts").fit_owners([object()], [object()])
    assert caught.value.code is Code.BUDGET_EXCEEDED


def test_the_papers_accounting_claims_and_does_not_hold() -> None:
    model = _model(accounting="paper", criterion="entropy", budget="decay", max_depth=4).fit(X, Y)
    assert math.isinf(model.privacy_.total("public").epsilon)


def test_bad_owners_are_refused_and_nothing_is_charged() -> None:
    xs, ys = OWNERS
    for tables, targets, code in (
        ([xs[0], xs[1][:0]], [ys[0], ys[1][:0]], Code.EMPTY_TABLE),
        ([xs[0], xs[1][:, :3]], [ys[0], ys[1]], Code.WRONG_SHAPE),
        ([xs[0], xs[1]], [ys[0]], Code.WRONG_SHAPE),
        ([], [], Code.WRONG_SHAPE),
        (X, Y, Code.WRONG_TYPE),
        ([xs[0], xs[1]], [ys[0], ys[1] + 5], Code.UNKNOWN_CLASS),
        ([np.tile(X, (2, 1)), X], [np.tile(Y, 2), Y], Code.CAPACITY_EXCEEDED),
    ):
        model = _model(method="noisy-counts")
        with pytest.raises(HedgerowError) as caught:
            model.fit_owners(tables, targets)
        assert caught.value.code is code
        assert not hasattr(model, "privacy_")
        if code in (Code.EMPTY_TABLE, Code.UNKNOWN_CLASS):
            assert "in the table of 'owner 1'" in str(caught.value)
    for names in (["a", "a", "b"], ["a", "b", "server 0"]):
        with pytest.raises(HedgerowError) as caught:
            _model(method="noisy-counts").fit_owners(*OWNERS, names=names)
        assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        _model(method="single-machine").fit_owners(*OWNERS)
    assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        TopDownTreeClassifier().fit_owners(*OWNERS)
    assert caught.value.code is Code.MISSING_DOMAIN


@pytest.mark.parametrize(
    "bad",
    [
        {"method": "other"},
        {"n_splits": 0},
        {"max_depth": "deep"},
        {"leaf_share": 1.5},
        {"leaf_share": 0.0},
        {"min_gain": -1},
        {"budget": (1.0, -1.0)},
        {"engine": "cloud"},
        {"method": "secure-counts", "criterion": "entropy"},
    ],
)
def test_bad_parameters(bad: dict[str, object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        _model(**bad).fit(X, Y)
    assert caught.value.code is Code.BAD_PARAMETER


def test_a_budget_of_its_own_sets_the_depth() -> None:
    plan = _model(budget=(4, 2, 1)).plan()
    assert plan.max_depth == 3
    assert plan.at(1).choice == pytest.approx(4 * plan.at(3).choice)


@pytest.mark.parametrize("method", ["single-machine", "noisy-counts", "local-rnm", "secure-counts"])
def test_a_domain_from_the_rows_promises_nothing_by_any_method(method: str) -> None:
    rows = np.random.default_rng(0).uniform(size=(120, 2))
    model = TopDownTreeClassifier(
        10.0, method=method, engine="clear", max_depth=1, insecure_domain_from_data=True
    )
    with pytest.warns(HedgerowWarning, match="reads bounds"):
        model.fit(rows, rows[:, 0] > 0.5)
    told = model.privacy_.total("public")
    assert np.isinf(told.epsilon)
    assert "read from the data" in told.why
