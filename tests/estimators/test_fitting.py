"""One table, one model, three files: written whole, and never before the charge."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from hedgerow import Account, Ledger
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.estimators.fitting import OPTIONS, Files, account_summary, fit_table, private_model
from hedgerow.trees import read_model
from tests.estimators.one_table import COSTS, DOMAIN, people, write_files

SMALL = {
    "auto": {},
    "tree": {"depth": 2},
    "topdown": {"depth": 2},
    "median-forest": {"trees": 2},
    "boosting": {"trees": 5},
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        *((kind, DOMAIN) for kind in OPTIONS),
        *((kind, COSTS) for kind in ("auto", "median-forest", "boosting")),
    ],
)
def test_every_kind_writes_its_files(kind: str, domain) -> None:
    model = private_model(kind, domain, epsilon=2.0, **SMALL[kind])
    files = Files.at(Path("out"))
    files.prepare(force=False)
    fit_table(model, Path("people.csv"), files)
    read = read_model(files.model)
    assert read.model.domain == domain
    ledger = Ledger.from_json(files.ledger.read_text())
    assert ledger.total().epsilon == pytest.approx(2.0, rel=1e-3)
    assert ledger.total() == model.privacy_.total()
    assert files.plot.read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in Path("out").iterdir()) == sorted(p.name for p in files)


def test_a_folder_of_parquet_files_is_read_in_pieces() -> None:
    Path("parts").mkdir()
    for i in range(2):
        pa.parquet.write_table(people().slice(300 * i, 300), f"parts/{i}.parquet")
    model = private_model("median-forest", DOMAIN, epsilon=5.0, trees=1, seed=1)
    files = Files.at(Path("model.json"))
    files.prepare(force=False)
    with pytest.warns(HedgerowWarning, match="not private"):
        fit_table(model, Path("parts"), files)
    assert model.score(people().select(["age", "ward"]), people()["ill"].to_numpy()) > 0.8
    assert Path("model.ledger.json").exists()
    assert Path("model.privacy.png").exists()


def test_an_interrupted_fit_leaves_the_ledger_of_what_was_charged() -> None:
    account = Account.new("account.json", 9.0, 1e-5, 1e-6)
    model = private_model("boosting", DOMAIN, epsilon=1.0, delta=1e-6, trees=5, account=account)
    files = Files.at(Path("out"))
    files.prepare(force=False)

    def interrupt(stage: str, done: int, of: int) -> None:
        if (stage, done) == ("rounds", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_table(model, Path("people.csv"), files, tell=interrupt)
    assert Ledger.from_json(files.ledger.read_text()).total().epsilon == pytest.approx(1, rel=1e-3)
    assert account.spent().epsilon == pytest.approx(1, rel=1e-3)
    assert [p.name for p in Path("out").iterdir()] == ["ledger.json"]
    assert account_summary(model)["fits"] == 1
    with pytest.raises(HedgerowError) as caught:
        files.prepare(force=False)
    assert caught.value.code is Code.FILE_EXISTS


@pytest.mark.filterwarnings("ignore:the noise will drown:hedgerow.errors.HedgerowWarning")
def test_a_refusal_leaves_older_files_as_they_were() -> None:
    files = Files.at(Path("out"))
    files.prepare(force=False)
    files.make_folder()
    for path in files:
        path.write_text("of an earlier fit")
    files.prepare(force=True)
    small = DOMAIN.model_copy(update={"capacity": 9})
    model = private_model("tree", small, epsilon=1.0, bad_rows="error")
    with pytest.raises(HedgerowError) as caught:
        fit_table(model, Path("people.csv"), files)
    assert caught.value.code is Code.CAPACITY_EXCEEDED
    assert {path.read_text() for path in files} == {"of an earlier fit"}


def test_an_account_refuses_before_the_table_is_opened() -> None:
    Account.new("account.json", 0.5)
    model = private_model("tree", DOMAIN, epsilon=1.0, account="account.json")
    with pytest.raises(HedgerowError) as caught:
        fit_table(model, Path("nowhere.csv"), Files.at(Path("out")))
    assert caught.value.code is Code.BUDGET_EXCEEDED


def test_options_of_other_models_and_other_targets_are_refused() -> None:
    with pytest.raises(HedgerowError, match="--depth") as caught:
        private_model("boosting", DOMAIN, epsilon=1.0, depth=3)
    assert caught.value.code is Code.BAD_PARAMETER
    with pytest.raises(HedgerowError, match="an option of auto: --delta"):
        private_model("auto", DOMAIN, epsilon=1.0, trees=3)
    with pytest.raises(HedgerowError) as caught:
        private_model("tree", COSTS, epsilon=1.0)
    assert caught.value.code is Code.BAD_TARGET
    model = private_model("tree", DOMAIN, epsilon=1.0)
    pa.parquet.write_table(people().drop(["ill"]), "rows.parquet")
    with pytest.raises(HedgerowError) as caught:
        fit_table(model, Path("rows.parquet"), Files.at(Path("out")))
    assert caught.value.code is Code.MISSING_COLUMN
