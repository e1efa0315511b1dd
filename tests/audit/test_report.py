import dataclasses
import json
import math

import pytest
from rich.console import Console

from hedgerow.audit.engine import Result
from hedgerow.audit.report import exit_code, rows, table, to_json, verdict
from hedgerow.privacy.accounting import Relation

BASE = Result(
    target="t",
    kind="mechanism",
    sound=True,
    claimed=1.0,
    proven=1.0,
    delta=0.0,
    relation=Relation.ADD_REMOVE,
    attacked=0.9,
    estimate=0.95,
    runs=1000,
    pair="0 and 1",
    event="outcome[0] >= 1",
    direction="likelier on the input",
    hits=(300, 100),
    ceiling=4.0,
    confidence=0.9995,
    false_alarm=0.001,
    seconds=0.1,
)


def result(**changes) -> Result:
    return dataclasses.replace(BASE, **changes)


CASES = [
    (result(), "not refuted", 0),
    (result(attacked=1.0), "not refuted", 0),
    (result(attacked=1.01), "refuted", 1),
    (result(proven=4.0, claimed=4.0), "out of reach", 0),
    (result(sound=False, proven=math.inf, attacked=1.5), "caught", 0),
    (result(sound=False, proven=math.inf, attacked=1.0), "missed", 1),
    (result(sound=False, proven=2.0, attacked=1.9), "caught", 0),
    # A paper's claim that falls is one thing; a figure of the ledger that falls is another.
    (result(sound=False, proven=2.0, attacked=2.1), "refuted", 1),
    (result(proven=math.inf, claimed=math.inf), "out of reach", 0),
]


@pytest.mark.parametrize(("found", "judged", "code"), CASES)
def test_verdict_and_exit_code(found: Result, judged: str, code: int) -> None:
    assert verdict(found) == judged
    assert exit_code([found]) == code


def test_one_failure_is_enough() -> None:
    assert exit_code([]) == 0
    assert exit_code([case for case, _, code in CASES if code == 0]) == 0
    assert exit_code([case for case, _, _ in CASES]) == 1


def test_rows_have_the_agreed_keys() -> None:
    row = rows([result()])[0]
    assert list(row)[:6] == ["target", "sound", "claimed", "proven", "attacked", "runs"]
    assert row["target"] == "t"
    assert row["sound"] is True
    assert (row["claimed"], row["proven"], row["attacked"], row["runs"]) == (1.0, 1.0, 0.9, 1000)
    assert {"delta", "pair", "event", "ceiling", "verdict", "relation"} <= set(row)
    assert row["relation"] == "add/remove"


def test_infinity_is_a_string_in_valid_json() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    text = to_json([result(), result(sound=False, proven=math.inf)])
    data = json.loads(text, parse_constant=refuse)
    assert list(data) == ["rows"]
    assert [row["proven"] for row in data["rows"]] == [1.0, "inf"]


def test_table_for_people() -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(
            table([result(), result(target="b", sound=False, proven=math.inf)], details=True)
        )
    text = captured.get()
    assert "outcome[0] >= 1" in text
    assert "not refuted" in text
    assert "inf" in text
    assert "at most 0.002" in text
    assert "missed" in text
