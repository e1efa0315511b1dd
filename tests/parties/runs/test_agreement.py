"""What servers compare: in one process per server, over TLS."""

import pytest

from hedgerow.errors import Code
from hedgerow.net.launch import run_parties
from hedgerow.net.network import Network
from hedgerow.parties.runs import agreement as agreement
from hedgerow.parties.runs.agreement import compare_texts, compare_uploads, confirm

SELF = __name__


def tag(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def stages_program(network: Network, cases: list[list[str]]) -> list[int]:
    (me,) = network.local
    return [agreement.agree_on_stages(network, [tag(n) for n in case[me]]) for case in cases]


def compare_program(network: Network, what: str, values: list[str]) -> None:
    (me,) = network.local
    if what == "text":
        compare_texts(network, "ledger", values[me], Code.BAD_LEDGER_FILE)
    elif what == "tag":
        confirm(network, tag(values[me]))
    else:
        compare_uploads(network, {"north-1": "ab" * 32, "south-1": values[me] * 32})


def test_the_stages_that_all_have() -> None:
    cases = [
        (["", "", ""], 0),
        (["abc", "abc", "abc"], 3),
        (["abcd", "ab", "abc"], 2),
        (["abc", "aXc", "abc"], 1),
        (["abc", "", "abc"], 0),
        (["aX", "aX", "aY"], 1),
    ]
    given = [[list(names) for names in case] for case, _ in cases]
    ends = run_parties(f"{SELF}:stages_program", 3, [given])
    assert [end.value for end in ends] == [[common for _, common in cases]] * 3


@pytest.mark.parametrize(
    ("what", "odd", "code"),
    [
        ("text", "b", Code.BAD_LEDGER_FILE),
        ("tag", "b", Code.SESSION_MISMATCH),
        ("uploads", "cd", Code.UPLOADS_DIFFER),
    ],
)
def test_one_that_differs_stops_all(what: str, odd: str, code: Code) -> None:
    same = "ab" if what == "uploads" else "a"
    ends = run_parties(f"{SELF}:compare_program", 3, [what, [same, same, same]])
    assert all(end.error is None for end in ends)
    ends = run_parties(f"{SELF}:compare_program", 3, [what, [same, odd, same]], check=False)
    codes = [end.error.code for end in ends if end.error is not None]
    assert len(codes) == 3
    assert code in codes
    if what == "uploads":
        assert any("south-1" in str(end.error) for end in ends)
