"""ID3 without privacy."""

import numpy as np
import pandas as pd
import pytest

from hedgerow import ID3Classifier
from hedgerow.errors import Code, HedgerowError

# Quinlan's example, as printed in the textbooks.
WEATHER = pd.DataFrame(
    [
        ("sunny", "hot", "high", "weak", "no"),
        ("sunny", "hot", "high", "strong", "no"),
        ("overcast", "hot", "high", "weak", "yes"),
        ("rain", "mild", "high", "weak", "yes"),
        ("rain", "cool", "normal", "weak", "yes"),
        ("rain", "cool", "normal", "strong", "no"),
        ("overcast", "cool", "normal", "strong", "yes"),
        ("sunny", "mild", "high", "weak", "no"),
        ("sunny", "cool", "normal", "weak", "yes"),
        ("rain", "mild", "normal", "weak", "yes"),
        ("sunny", "mild", "normal", "strong", "yes"),
        ("overcast", "mild", "high", "strong", "yes"),
        ("overcast", "hot", "normal", "weak", "yes"),
        ("rain", "mild", "high", "strong", "no"),
    ],
    columns=["outlook", "temperature", "humidity", "wind", "play"],
)


def test_weather_gives_the_textbook_tree() -> None:
    X, y = WEATHER.drop(columns="play"), WEATHER.play
    model = ID3Classifier().fit(X, y)
    root = model.domain_.attributes[model.tree_.feature[0]]
    assert root.name == "outlook"
    assert model.get_depth() == 2
    assert model.get_n_leaves() == 5
    assert model.score(X, y) == 1.0
    used = {model.domain_.names[f] for f in model.tree_.feature if f >= 0}
    assert used == {"outlook", "humidity", "wind"}
    assert model.feature_importances_[1] == 0.0
    # Gains of Quinlan's example: 0.2467 bits at the root, all of the rest below.
    assert model.feature_importances_[0] == pytest.approx(0.2467 / 0.9403, abs=1e-3)


def test_an_empty_branch_answers_as_its_parent() -> None:
    X = pd.DataFrame({"a": ["x", "x", "y", "y", "y"], "b": ["p", "q", "p", "p", "p"]})
    model = ID3Classifier().fit(X, ["0", "1", "1", "1", "1"])
    assert model.predict(pd.DataFrame({"a": ["y"], "b": ["q"]})) == ["1"]


def test_numeric_attributes_are_cut_into_bins() -> None:
    X = np.arange(100.0)[:, None]
    model = ID3Classifier(max_bins=4).fit(X, (X[:, 0] >= 50).astype(int))
    assert model.get_n_leaves() == 4
    assert model.score(X, (X[:, 0] >= 50).astype(int)) == 1.0


@pytest.mark.parametrize("parameters", [{"criterion": "squared_error"}, {"max_depth": 0}])
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(HedgerowError) as caught:
        ID3Classifier(**parameters).fit(np.ones((2, 1)), [0, 1])
    assert caught.value.code is Code.BAD_PARAMETER
