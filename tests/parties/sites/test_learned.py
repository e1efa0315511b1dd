"""Records of what a site has learned: every attempt has one, and answers add up."""

import json
from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.sites.learned import UNDER_WAY, Learned
from hedgerow.privacy import Leakage, Opening
from tests.parties.wire.parties_calls import refuses


def leakage() -> Leakage:
    return Leakage(
        [
            Opening("gain", "site 1", (), independent="a test", times=9),
            Opening("sizes", "site 1", (2, 3), independent="a test", times=4),
        ]
    )


def test_an_attempt_has_a_record_before_anything_arrives(tmp_path: Path) -> None:
    found = leakage()
    record = Learned(tmp_path, "ab" * 16, begun=5.0)
    record.write([found])
    (read,) = Learned.all_of(tmp_path)
    assert (read.state, read.begun) == (UNDER_WAY, 5.0)
    assert [row["learned"] for row in read.rows] == [0, 0]
    found.check("sizes", "site 1", (2, 3))
    record.write([found], "failed: H842")
    (read,) = Learned.all_of(tmp_path)
    assert read.state == "failed: H842"
    assert read.rows[1] == {
        "name": "sizes",
        "declared": 4,
        "learned": 1,
        "values": 6,
        "why": "independent: a test",
    }
    assert (tmp_path / "learned").stat().st_mode & 0o777 == 0o700


def test_answers_add_up_over_restarts(tmp_path: Path) -> None:
    for _ in range(3):
        found, record = leakage(), Learned.of_answers(tmp_path)
        for _ in range(2):
            found.check("gain", "site 1", ())
            record.write_more(found)
    (read,) = Learned.all_of(tmp_path)
    assert (read.attempt, read.state) == ("answers", "answering")
    assert [row["learned"] for row in read.rows] == [6, 0]


@pytest.mark.parametrize("change", [{"version": 2}, {"schema": "other"}, {"more": 1}])
def test_what_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    Learned(tmp_path, "ab" * 16).write([leakage()])
    (path,) = (tmp_path / "learned").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refuses(Code.BAD_LEDGER_FILE, lambda: Learned.all_of(tmp_path))
