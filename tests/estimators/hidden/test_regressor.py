import math

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from hedgerow import CARTRegressor, Domain, HiddenTreeRegressor
from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.sharing.join import openings

X, Y = load_diabetes(return_X_y=True)
DOMAIN = Domain.suggest(X, Y, max_bins=16, task="regression", quiet=True).confirm_public(
    capacity=450
)


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
def test_without_noise_it_predicts_as_cart(engine: str, partition: str) -> None:
    model = HiddenTreeRegressor(
        domain=DOMAIN, noise="none", max_depth=4, engine=engine, partition=partition, n_owners=3
    ).fit(X, Y)
    cart = CARTRegressor(domain=DOMAIN, max_depth=4).fit(X, Y)
    # Half the bounds' width is 160.5; units are 2^-20 of it.
    assert np.abs(model.predict(X) - cart.predict(X)).max() < 160.5 * 2.0**-19
    assert model.privacy_.total("analyst").epsilon == math.inf
    assert model.privacy_.total("server 0").epsilon == 0
    learned = model.what_was_learned("analyst")
    assert [(row["name"], row["values"]) for row in learned] == [("value of each query", 442)]
    joined = [one.name for one in openings([1] * 3, "server")] if partition == "vertical" else []
    assert [row["name"] for row in model.what_was_learned("server 0")] == joined


def test_owners_bring_their_tables() -> None:
    model = HiddenTreeRegressor(domain=DOMAIN, noise="none", max_depth=2, engine="clear")
    model.fit_owners([X[:200], X[200:]], [Y[:200], Y[200:]], slots=[205, 245])
    cart = CARTRegressor(domain=DOMAIN, max_depth=2).fit(X, Y)
    assert np.abs(model.predict(X) - cart.predict(X)).max() < 1e-2


def test_noise_costs_epsilon_once_for_all_answers() -> None:
    model = HiddenTreeRegressor(30.0, DOMAIN).fit(X, Y)
    first = model.predict(X)
    assert np.array_equal(first, model.predict(X))
    assert model.privacy_.total("analyst").epsilon == pytest.approx(30.0)
    assert 0.2 < model.score(X, Y) < 0.8
    assert first.min() >= 25
    assert first.max() <= 346


def test_parameters_are_refused_with_a_number() -> None:
    for wrong in (
        {"noise": "votes"},
        {"max_depth": 0},
        {"split_share": 1.0},
        {"grower": "best"},
        {"engine": "cloud"},
    ):
        with pytest.raises(HedgerowError) as caught:
            HiddenTreeRegressor(domain=DOMAIN, **wrong).fit(X, Y)
        assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError) as caught:
        HiddenTreeRegressor().fit(X, Y)
    assert caught.value.code is Code.MISSING_DOMAIN
