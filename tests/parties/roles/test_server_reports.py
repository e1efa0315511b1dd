"""What a server tells of a model is written and read without a loss, and nothing else is read."""

import json
import math
from typing import Any

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.roles.server_reports import (
    Asking,
    LedgerLine,
    ModelClient,
    ModelReport,
    Opened,
    Sent,
)
from hedgerow.parties.wire.client import Reply
from tests.parties.consortia import found
from tests.parties.wire.parties_calls import refuses

REPORT = ModelReport(
    model="m",
    protocol="hidden-tree",
    run="m-run",
    job="0" * 64,
    populations=("patients",),
    analysts=("zoe",),
    learned=(LedgerLine(audience="public", epsilon=math.inf, delta=0.0, relation="replace"),),
    opened=(Opened(name="s", audience="public", shape="2", why="w", declared=3, opened=1),),
    asking=(Asking(analyst="zoe", asked=3, left=4),),
    rows_left=10,
    sent=Sent(rounds=2, payload=30, wire=40),
)


OPENED = {"name": "s", "audience": "a", "shape": "2", "why": "w", "declared": 3, "opened": 1}


def test_there_and_back() -> None:
    assert ModelReport.parse(REPORT.to_json()) == REPORT
    assert json.loads(REPORT.to_json())["learned"][0]["epsilon"] == "inf"


@pytest.mark.parametrize(
    "change",
    [
        {"learned": [{"audience": "a\nb", "epsilon": 1, "delta": 0, "relation": "replace"}]},
        {"learned": [{"audience": "a", "epsilon": -1, "delta": 0, "relation": "replace"}]},
        {"learned": [{"audience": "a", "epsilon": 1, "delta": 2, "relation": "replace"}]},
        {"learned": [{"audience": "a", "epsilon": 1, "delta": 0, "relation": "r"}]},
        {"opened": [OPENED | {"shape": "2x"}]},
        {"opened": [OPENED | {"shape": "many"}]},
        {"opened": [OPENED | {"shape": "\N{SUPERSCRIPT TWO}"}]},
        {"rows_left": -1},
        {"rows_left": 1.5},
        {"sent": {"rounds": 1}},
        {"job": "0" * 63},
        {"analysts": "zoe"},
        {"surprise": 1},
    ],
)
def test_nonsense_has_a_number(change: dict) -> None:
    text = json.dumps(REPORT.to_dict() | change).encode()
    refuses(Code.BAD_REPLY, lambda: ModelReport.parse(text))


LINE = {
    "model": "m",
    "protocol": "hidden-tree",
    "run": "m-run",
    "job": "0" * 64,
    "populations": ["patients"],
    "analysts": ["zoe"],
}
SHOWN = LINE | {
    "learned": [{"audience": "public", "epsilon": 0.0, "delta": 0.0, "relation": "replace"}],
    "opened": [],
    "asking": [{"analyst": "zoe", "asked": 3, "left": 4}],
    "rows_left": None,
    "sent": {"rounds": 2, "payload": 30, "wire": 40},
}


class Said(ModelClient):
    """A client whose servers say what a test wants, time after time."""

    def __init__(self, config: Any, *rounds: list[Any]) -> None:
        super().__init__(config)
        self.rounds = list(rounds)

    def _ask_all(self, verb: str, fields: Any) -> dict[str, Reply | HedgerowError]:
        del verb, fields
        said = self.rounds.pop(0)
        return {
            server.name: one
            if isinstance(one, HedgerowError)
            else Reply({}, one if isinstance(one, bytes) else json.dumps(one).encode())
            for server, one in zip(self.members, said, strict=True)
        }


@pytest.fixture
def client(tmp_path):
    config = found(tmp_path)["north"]
    return lambda *rounds: Said(config, *rounds)


def test_all_agree(client) -> None:
    other = SHOWN | {"sent": {"rounds": 2, "payload": 5, "wire": 6}}
    shown = client([SHOWN, other, other]).show("m")
    assert shown.is_well
    assert (shown.cost.rounds, shown.cost.payload, shown.cost.wire) == (2, 40, 52)


def test_counts_are_looked_at_again(client) -> None:
    asked = SHOWN | {"asking": [{"analyst": "zoe", "asked": 4, "left": 3}]}
    assert client([SHOWN, asked, asked], [asked] * 3).show("m").report.asking[0].asked == 4
    shown = client(*[[SHOWN, asked, asked]] * 3).show("m")
    assert {n: said[0]["asked"] for n, said in shown.differences["asking"].items()} == {
        "alder": 3,
        "birch": 4,
        "cedar": 4,
    }


def test_another_ledger_is_told_at_once(client) -> None:
    dear = SHOWN["learned"][0] | {"epsilon": "inf"}
    shown = client([SHOWN, SHOWN, SHOWN | {"learned": [dear]}]).show("m")
    assert list(shown.differences) == ["learned"]
    assert not shown.is_well
    assert shown.to_dict()["differences"]["learned"]["cedar"][0]["epsilon"] == "inf"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"[]",
        SHOWN | {"model": "../m"},
        SHOWN | {"job": "x"},
        SHOWN | {"more": 1},
        SHOWN | {"asking": [{"analyst": "zoe", "asked": -1, "left": 0}]},
        SHOWN | {"learned": [SHOWN["learned"][0] | {"audience": "\x1b[2J"}]},
        SHOWN | {"learned": [SHOWN["learned"][0] | {"epsilon": "nan"}]},
    ],
)
def test_nonsense_is_a_refusal(client, nonsense: Any) -> None:
    shown = client([SHOWN, nonsense, SHOWN]).show("m")
    assert {name: error.code for name, error in shown.refusals.items()} == {"birch": Code.BAD_REPLY}
    refuses(Code.BAD_REPLY, lambda: client([nonsense] * 3).show("m"))


def test_lists(client) -> None:
    down = Code.SERVICE_UNREACHABLE.error(found="nobody")
    one = {"models": [LINE]}
    shelves, refusals = client([one, {"models": []}, down]).list()
    assert [shelf.line.model for shelf in shelves] == ["m"]
    assert shelves[0].servers == {"alder": "kept", "birch": "missing", "cedar": "unreachable"}
    assert refusals == {"cedar": down}
    other = {"models": [LINE | {"analysts": []}]}
    assert client([one, other, one]).list()[0][0].servers["birch"] == "differs"
    refuses(Code.SERVICE_UNREACHABLE, lambda: client([down] * 3).list())
    for nonsense in ({"models": {}}, {"models": [LINE, LINE]}, {}):
        assert client([one, nonsense, one]).list()[1]["birch"].code is Code.BAD_REPLY
