"""What servers compare over TLS; each server is a thread."""

from pathlib import Path

import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.parties.runs.agreement import (
    agree_on_stages,
    compare_texts,
    compare_uploads,
    confirm,
)
from tests.net.net_parties import Club

STAGES = [
    (["", "", ""], 0),
    (["abc", "abc", "abc"], 3),
    (["abcd", "ab", "abc"], 2),
    (["abc", "aXc", "abc"], 1),
    (["abc", "", "abc"], 0),
    (["aX", "aX", "aY"], 1),
]


def tag(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def compare(network: Network, what: str, values: list[str]) -> None:
    (me,) = network.local
    if what == "text":
        compare_texts(network, "ledger", values[me], Code.BAD_LEDGER_FILE)
    elif what == "tag":
        confirm(network, tag(values[me]))
    else:
        compare_uploads(network, {"north-1": "ab" * 32, "south-1": values[me] * 32})


def test_the_stages_that_all_have(tmp_path: Path) -> None:
    def program(network: Network) -> list[int]:
        (me,) = network.local
        return [agree_on_stages(network, [tag(name) for name in case[me]]) for case, _ in STAGES]

    assert Club(tmp_path).run(program) == [[common for _, common in STAGES]] * 3


def test_what_is_the_same_passes(tmp_path: Path) -> None:
    def program(network: Network) -> str:
        for what, same in (("text", "a"), ("tag", "a"), ("uploads", "ab")):
            compare(network, what, [same] * 3)
        return "passed"

    assert Club(tmp_path).run(program) == ["passed"] * 3


@pytest.mark.parametrize(
    ("what", "same", "odd", "code"),
    [
        ("text", "a", "b", Code.BAD_LEDGER_FILE),
        ("tag", "a", "b", Code.SESSION_MISMATCH),
        ("uploads", "ab", "cd", Code.UPLOADS_DIFFER),
    ],
)
def test_one_that_differs_stops_all(
    tmp_path: Path, what: str, same: str, odd: str, code: Code
) -> None:
    ends = Club(tmp_path).run(lambda network: compare(network, what, [same, odd, same]))
    assert all(isinstance(end, HedgerowError) for end in ends)
    assert code in [end.code for end in ends]
    if what == "uploads":
        assert any("south-1" in str(end) for end in ends)
