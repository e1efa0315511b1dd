"""What a server tells of a model is written and read without a loss, and nothing else is read."""

import json
import math

import pytest

from hedgerow.errors import Code
from hedgerow.parties.roles.model_report import Asking, Learned, ModelReport, Opened, Sent
from tests.parties.wire.parties_calls import refuses

REPORT = ModelReport(
    model="m",
    kind="trees",
    run="m-run",
    job="0" * 64,
    populations=("patients",),
    analysts=("zoe",),
    learned=(Learned(audience="public", epsilon=math.inf, delta=0.0, relation="replace"),),
    opened=(Opened(name="s", audience="public", shape="2", why="w", declared=3, opened=1),),
    asking=(Asking(analyst="zoe", asked=3, left=4),),
    rows_left=10,
    sent=Sent(rounds=2, payload=30, wire=40),
)


def test_there_and_back() -> None:
    assert ModelReport.parse(REPORT.to_json()) == REPORT
    assert json.loads(REPORT.to_json())["learned"][0]["epsilon"] == "inf"


@pytest.mark.parametrize(
    "change",
    [
        {"learned": [{"audience": "a\nb", "epsilon": 1, "delta": 0, "relation": "r"}]},
        {"learned": [{"audience": "a", "epsilon": -1, "delta": 0, "relation": "r"}]},
        {"learned": [{"audience": "a", "epsilon": 1, "delta": 2, "relation": "r"}]},
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
