"""A site's own columns, rows and instances."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from hedgerow.errors import Code
from hedgerow.parties.vertical.columns import OwnColumns, bins_or_stand_ins, parsed_ids
from hedgerow.tables import Target
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.ids import id_bytes
from tests.parties.vertical.site_towns import SITES, SiteFiles, make_job, part
from tests.parties.wire.parties_calls import refuses


def load(town: SiteFiles, name: str, **changes) -> OwnColumns:
    return OwnColumns.load(town.domain(name), make_job(**changes), SITES.index(name))


def test_rows_and_instances(tmp_path: Path) -> None:
    town = SiteFiles(tmp_path)
    club, observatory = load(town, "club"), load(town, "observatory")
    table = club.table(town.table("club"), "id")
    assert table.bins.shape == (15, 1)
    assert table.labels is not None
    assert table.labels.sum() == 9 + (part("club")["play"][0].as_py() == "yes")
    assert observatory.table(town.table("observatory"), "id").labels is None
    names, bins = observatory.instances(town.table("observatory"), "id")
    assert sorted(names.tolist()) == [*range(1, 15), 99]
    assert bins.shape == (15, 2)
    assert observatory.no_rows().n_values.tolist() == [2, 2]


def test_a_site_with_the_class_alone(tmp_path: Path) -> None:
    town = SiteFiles(tmp_path)
    town.domain("club").write_text('[target]\nname = "play"\nclasses = ["no", "yes"]\n')
    club = load(town, "club")
    table = club.table(town.table("club"), "id")
    assert (table.bins.shape, len(table.n_values)) == ((15, 0), 0)
    assert club.no_rows().labels is not None


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("club", {"class_at": "office"}, "a target in the domain of club"),
        ("office", {"class_at": "office"}, "no target in the domain of office"),
        ("club", {"classes": ["yes", "no"]}, "at club"),
        ("club", {"classes": 3}, "at club"),
    ],
)
def test_what_does_not_fit_the_job(tmp_path: Path, name: str, changes, words: str) -> None:
    town = SiteFiles(tmp_path)
    assert words in refuses(Code.BAD_SITES, lambda: load(town, name, **changes)).found


def test_files_that_are_refused(tmp_path: Path) -> None:
    town = SiteFiles(tmp_path)
    office = load(town, "office")
    rows = part("office")
    pyarrow.csv.write_csv(pa.concat_tables([rows, rows.slice(0, 1)]), town.table("office"))
    refuses(Code.DUPLICATE_ID, lambda: office.table(town.table("office"), "id"))
    refuses(Code.MISSING_COLUMN, lambda: office.table(town.table("office"), "day"))
    pyarrow.csv.write_csv(pa.table({"temperature": ["hot", "mild"]}), tmp_path / "ids.csv")
    refuses(Code.DUPLICATE_COLUMN, lambda: office.table(tmp_path / "ids.csv", "temperature"))
    town.domain("office").write_text("attributes = 3\n")
    refuses(Code.BAD_DOMAIN_FILE, lambda: load(town, "office"))
    refuses(Code.BAD_DOMAIN_FILE, lambda: OwnColumns.load(tmp_path / "none", make_job(), 2))


def test_noise_needs_a_public_domain(tmp_path: Path) -> None:
    town = SiteFiles(tmp_path)
    text = town.domain("office").read_text().replace('"declared"', '"read from data"')
    town.domain("office").write_text(text)
    load(town, "office")
    noisy = {"epsilon": 1.0, "max_depth": 2}
    refuses(Code.DOMAIN_READ_FROM_DATA, lambda: load(town, "office", **noisy))


def test_ids_as_people_write_them() -> None:
    assert parsed_ids(["7", "-2"], np.array([1])).tolist() == [7, -2]
    assert parsed_ids(["7", "x"], np.array(["a"])).tolist() == ["7", "x"]
    refuses(Code.WRONG_TYPE, lambda: parsed_ids(["x"], np.array([1])))


@pytest.mark.parametrize("texts", [False, True])
def test_an_own_row_stands_in_for_an_id_that_is_not_here(texts: bool) -> None:
    known = np.array(["7", "3"]) if texts else np.array([7, 3])
    bins = np.array([[1, 0, 4], [0, 1, 2]], dtype=np.uint8)
    asked = [*map(str, range(100)), "nobody", "\ud800", "9" * 40]
    found = bins_or_stand_ins(asked, known, bins, b"key")
    assert found[[7, 3]].tolist() == bins.tolist()
    # Rows are taken whole, and each for somebody.
    assert np.unique(found, axis=0).tolist() == sorted(bins.tolist())
    again = bins_or_stand_ins(asked[::-1], known[::-1], bins[::-1], b"key")[::-1]
    np.testing.assert_array_equal(again, found)
    assert (bins_or_stand_ins(asked, known, bins, b"other") != found).any()
    # However a number is written: one that is not here answers as one does that is.
    pair = bins_or_stand_ins(["8", "8\0"] if texts else ["8", " +08"], known, bins, b"key")
    assert pair[0].tolist() == pair[1].tolist()
    assert not bins_or_stand_ins(asked, known[:0], bins[:0], b"key").any()
    assert bins_or_stand_ins(asked, known, bins[:, :0], b"key").shape == (103, 0)


def test_a_text_among_the_ids_changes_no_answer_about_another() -> None:
    rng = np.random.default_rng(1)
    bins, numbers = rng.integers(0, 9, (40, 3)), np.arange(40)
    asked = ["7", "07", " +7", "1_0", "-0"]
    found = bins_or_stand_ins(asked, numbers, bins, b"key")
    assert (found[:3] == bins[7]).all()
    mixed = np.array([*map(str, numbers[:-1]), "x"])
    # What stands in for an id that is not there may be the row that is another now.
    again = bins_or_stand_ins(asked, mixed, bins, b"key")
    assert (again[[0, 1, 2, 4]] == found[[0, 1, 2, 4]]).all()
    own = np.array([*map(str, numbers[:-1]), "07"])
    assert (bins_or_stand_ins(asked, own, bins, b"key")[1] == bins[-1]).all()


@pytest.mark.parametrize(
    "target",
    [Target(name="y", classes=classes) for classes in ((0, 1), ("0", "1"))]
    + [Target(name="y", bounds=(0, 1))],
    ids=str,
)
@pytest.mark.parametrize("odd", ["9,abc", "9,1,3", "9,\xff", ",1", "3,1", '9,""', "x,2020-01-01"])
def test_a_row_beside_a_target_alone_changes_no_other(
    tmp_path: Path, target: Target, odd: str
) -> None:
    own, path = OwnColumns(None, target), tmp_path / "rows.csv"
    lines = ["id,y", *(f"{i},{i % 2}" for i in range(6))]
    kept = []
    for more in ([], [odd]):
        path.write_bytes("\n".join([*lines, *more, ""]).encode("latin-1"))
        absorbed = AbsorbedRows()
        table = own.table(path, "id", absorbed, 20)
        kept.append(dict(zip(id_bytes(table.ids), table.labels.tolist(), strict=True)))
        assert absorbed.broken_lines + absorbed.without_id + absorbed.without_target <= 2
    # A repeated id names nobody.
    assert len(kept[0].items() - kept[1].items()) == (odd == "3,1")
    assert len(kept[1].items() - kept[0].items()) <= 1


def test_stand_ins_have_the_law_of_own_rows_and_stay_when_rows_come() -> None:
    """A rare value is as rare among those who are not here, and answers stay as they are."""
    known, rng = np.arange(0, 20_000, 2), np.random.default_rng(0)
    bins = (rng.random((len(known), 1)) < 0.01).astype(np.uint8)
    absent = [str(one) for one in range(1, 20_000, 2)]
    found = bins_or_stand_ins(absent, known, bins, b"key")
    assert 0.005 < found.mean() < 0.02
    new = np.append(known, 20_001)
    later = bins_or_stand_ins(absent, new, np.append(bins, [[1]], axis=0), b"key")
    assert (later != found).sum() <= 20
