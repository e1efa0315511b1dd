"""Answers for files: in pieces as in one, columns by name, errors that say where."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from hedgerow import CARTClassifier, CARTRegressor, DPBoostingClassifier, DPBoostingRegressor
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import encode
from hedgerow.tables.writing import write_pieces
from hedgerow.trees import grow_forest
from hedgerow.trees.model import model_from_json
from hedgerow.trees.table_answers import answer_table
from tests.estimators.one_table import COSTS, DOMAIN, people

INPUTS = ["age", "ward"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(people(), path)
    return path


def classes() -> list:
    table = people()
    X, y = table.select(INPUTS), table["ill"].to_numpy()
    boosting = DPBoostingClassifier(5.0, DOMAIN, n_estimators=3).fit(X, y)
    return [
        CARTClassifier(domain=DOMAIN, max_depth=3).fit(X, y).tree_,
        grow_forest(encode(X, DOMAIN, y), n_trees=2, seed=0),
        boosting.boosted_,
    ]


def test_every_model_answers_in_pieces_as_in_one(file: Path) -> None:
    for model in classes():
        whole = next(answer_table(model, file, proba=True))
        pieces = pa.concat_tables(answer_table(model, file, proba=True, rows=97))
        assert pieces.equals(whole)
        assert whole.column_names == ["row", "class", "p(no)", "p(yes)"]
        assert whole["row"].to_pylist() == list(range(600))
        bins = encode(people(), DOMAIN).bins
        assert np.array_equal(whole["p(yes)"].to_numpy(), model.distribution(bins)[:, 1])
        names = np.array(["no", "yes"])[model.predict_class(bins)]
        assert whole["class"].to_pylist() == names.tolist()


def test_classes_and_their_probabilities_are_spelled_alike(tmp_path: Path) -> None:
    ages = np.arange(40)
    model = CARTClassifier(max_depth=1).fit(pd.DataFrame({"age": ages}), ages > 20)
    (tmp_path / "rows.csv").write_text("age\n1\n39\n")
    out = tmp_path / "answers.csv"
    with out.open("wb") as file:
        public = model_from_json(model.to_json()).model
        write_pieces(answer_table(public, tmp_path / "rows.csv", proba=True), file, ".csv")
    said = pd.read_csv(out, dtype=str)
    assert list(said.columns[2:]) == ["p(false)", "p(true)"]
    assert said["class"].tolist() == ["false", "true"]


def test_numbers_stay_within_their_bounds(file: Path) -> None:
    X, y = people().select(INPUTS), people()["cost"].to_numpy()
    tree = CARTRegressor(domain=COSTS, max_depth=4).fit(X, y)
    answers = next(answer_table(tree.tree_, file))
    assert np.array_equal(answers["value"].to_numpy(), tree.predict(X))
    boosting = DPBoostingRegressor(0.05, COSTS, n_estimators=20).fit(X, y)
    answers = next(answer_table(boosting.boosted_, file))
    assert np.array_equal(answers["value"].to_numpy(), boosting.predict(X))
    with pytest.raises(HedgerowError, match="numbers") as caught:
        next(answer_table(tree.tree_, file, proba=True))
    assert caught.value.code is Code.BAD_PARAMETER


def test_errors_count_the_rows_of_the_file_as_the_answers_do(tmp_path: Path) -> None:
    model = classes()[0]
    table = people().to_pandas()
    table.loc[250, "ward"] = "z"
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    with pytest.raises(HedgerowError) as caught:
        list(answer_table(model, path, rows=100))
    assert caught.value.code is Code.UNKNOWN_CATEGORY
    assert "people.csv: 1 row of column 'ward' (row 250: 'z'" in caught.value.found
    table.drop(columns="age").to_csv(path, index=False)
    with pytest.raises(HedgerowError) as caught:
        list(answer_table(model, path))
    assert caught.value.code is Code.MISSING_COLUMN
    assert "age" in str(caught.value)
