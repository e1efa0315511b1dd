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
    assert parsed_ids(["7"], np.array(["a"])).tolist() == ["7"]
    for text in ("x", "07", " 7", "+7", "1_0", "9" * 40, "7\0"):
        # As a table has it, which is no whole number.
        refuses(Code.WRONG_TYPE, lambda text=text: parsed_ids(["7", text], np.array([1])))
    for text in ("x\0", "\0", "\ud800", "x" * 257):
        refuses(Code.WRONG_TYPE, lambda text=text: parsed_ids([text], np.array(["x"])))


@pytest.mark.parametrize("texts", [False, True])
def test_an_own_row_stands_in_for_an_id_that_is_not_here(texts: bool) -> None:
    known = np.array(["7", "3"]) if texts else np.array([7, 3])
    bins = np.array([[1, 0, 4], [0, 1, 2]], dtype=np.uint8)
    asked = [*map(str, range(100)), "nobody", "é", "9" * 40]
    found = bins_or_stand_ins(asked, known, bins, b"key")
    assert found[[7, 3]].tolist() == bins.tolist()
    # Rows are taken whole, and each for somebody.
    assert np.unique(found, axis=0).tolist() == sorted(bins.tolist())
    again = bins_or_stand_ins(asked[::-1], known[::-1], bins[::-1], b"key")[::-1]
    np.testing.assert_array_equal(again, found)
    assert (bins_or_stand_ins(asked, known, bins, b"other") != found).any()
    assert not bins_or_stand_ins(asked, known[:0], bins[:0], b"key").any()
    assert bins_or_stand_ins(asked, known, bins[:, :0], b"key").shape == (103, 0)


def test_a_text_among_the_ids_changes_no_answer_about_another() -> None:
    rng = np.random.default_rng(1)
    bins, numbers = rng.integers(0, 9, (40, 3)), np.arange(40)
    asked = ["7", "07", " +7", "1_0", "-0"]
    found = bins_or_stand_ins(asked, numbers, bins, b"key")
    assert (found[0] == bins[7]).all()
    mixed = np.array([*map(str, numbers[:-1]), "x"])
    # What stands in for an id that is not there may be the row that is another now.
    again = bins_or_stand_ins(asked, mixed, bins, b"key")
    assert (again == found).all(axis=1).sum() >= len(asked) - 1
    own = np.array([*map(str, numbers[:-1]), "07"])
    assert (bins_or_stand_ins(asked, own, bins, b"key")[1] == bins[-1]).all()


_SPELLINGS = ("0{}", "00{}", "+{}", " {}", "{} ", "-{}", "{}.0", "x{}")
_ALWAYS_ID, _NEVER_ID = ("7", "x", ""), ("x\0", "7\0", "\0", "x\0y", "\ud800", "x" * 257)


@pytest.mark.parametrize("digits", [0, 6])
def test_no_spelling_tells_who_is_here(digits: int) -> None:
    """Names that are equal to a table answer alike; others answer as those of two people do.

    Every second one is here. Of those, and of the rest, as many answers differ between two ways to
    write an id as between two ids.
    """
    rng, n = np.random.default_rng(2), 4_000
    numbers = np.arange(0, 2 * n, 2)
    texts = np.array([f"{one:0{digits}d}" for one in range(2 * n)])
    known = texts[::2] if digits else numbers
    bins = rng.integers(0, 4, (n, 1)).astype(np.uint8)
    plain = bins_or_stand_ins(texts.tolist(), known, bins, b"key")[:, 0]
    assert (plain[::2] == bins[:, 0]).all()
    # An id that is asked about twice is one id, beside whatever others.
    twice = bins_or_stand_ins(["nobody", *texts[::-1].tolist()], known, bins, b"key")[:0:-1, 0]
    np.testing.assert_array_equal(twice, plain)
    if not digits:
        # In a table of texts these are the same ids.
        same = bins_or_stand_ins(texts.tolist(), known.astype(np.str_), bins, b"key")[:, 0]
        np.testing.assert_array_equal(same, plain)
    shorter = [text.removeprefix("0") if digits else f"0{text}" for text in texts]
    for others in (*([how.format(text) for text in texts] for how in _SPELLINGS), shorter):
        differ = bins_or_stand_ins(others, known, bins, b"key")[:, 0] != plain
        here, absent = differ[::2].mean(), differ[1::2].mean()
        # Of four values, equally frequent; five standard deviations.
        assert abs(here - 0.75) < 0.035, others[:3]
        assert abs(absent - 0.75) < 0.035, others[:3]


@pytest.mark.parametrize("known", [["x", "7", "y"], [7, 8], []], ids=str)
def test_what_is_no_id_is_refused_whoever_is_here(known: list[int] | list[str]) -> None:
    own, bins = np.array(known), np.zeros((len(known), 1), np.uint8)
    for text in _NEVER_ID:
        asked = ["7", text]
        refuses(Code.WRONG_TYPE, lambda asked=asked: bins_or_stand_ins(asked, own, bins, b"key"))
    assert bins_or_stand_ins(list(_ALWAYS_ID), own, bins, b"key").shape == (3, 1)


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
