"""The ledger: JSON and tables."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, FormatError, HedgerowError, PrivacyError
from hedgerow.privacy.accounting import tightest
from hedgerow.privacy.entries import Budget
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, ROOT, part, step
from hedgerow.privacy.statement import WHICH
from tests.privacy.release_strategies import (
    AUDIENCES,
    NODES,
    Provenance,
    gaussian,
    ledger_of,
    release,
    release_lists,
)

relaxed = settings(max_examples=60)


@relaxed
@given(
    release_lists(),
    st.sampled_from([None, Budget(math.inf, 1.0)]),
    st.sampled_from([None, Provenance(True)]),
    st.lists(st.sampled_from(AUDIENCES), max_size=2),
)
def test_json_round_trip(
    events: list[Release], budget: Budget | None, domain: Provenance | None, marked: list[str]
) -> None:
    ledger = ledger_of(events, budget=budget, domain=domain)
    held = ledger.reserve(release(0.3, times=2))
    ledger.realise(held, release(0.1, ROOT / step("a")))
    if marked:
        ledger.mark_not_private("a reason", marked)
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()
    assert again.entries == ledger.entries
    assert again.not_private == ledger.not_private
    assert again.summary() == ledger.summary()
    assert again.budget == ledger.budget


def test_what_was_not_public_stays_so_in_the_file() -> None:
    ledger = ledger_of([release(math.inf)], domain=Provenance(False))
    again = Ledger.from_json(ledger.to_json())
    with pytest.raises(PrivacyError, match="H202"):
        again.charge(release(1.0))
    Ledger.from_json(ledger.to_json(), domain=Provenance(True)).charge(release(1.0))


def damaged(change: dict[str, object], release_change: dict[str, object] | None = None) -> str:
    data = json.loads(ledger_of([release(1.0)], budget=1.0).to_json())
    data["entries"][0]["release"].update(release_change or {})
    return json.dumps({**data, **change})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (damaged({"version": 3}), Code.BAD_LEDGER_FILE),
        (damaged({"schema": "hedgerow.tree"}), Code.BAD_LEDGER_FILE),
        (damaged({"more": 1}), Code.BAD_LEDGER_FILE),
        (damaged({"entries": 3}), Code.BAD_LEDGER_FILE),
        (damaged({"entries": [{"kind": "charge"}]}), Code.BAD_LEDGER_FILE),
        (damaged({"budget": ["one", 0]}), Code.BAD_LEDGER_FILE),
        (damaged({"budget": 3}), Code.BAD_LEDGER_FILE),
        (damaged({"not_private": [{"reason": "x"}, 3]}), Code.BAD_LEDGER_FILE),
        (damaged({"budget": [0.5, 0.0]}), Code.BUDGET_EXCEEDED),
        (damaged({"domain_is_public": False}), Code.DOMAIN_READ_FROM_DATA),
        (damaged({}, {"mechanism": "unheard of"}), Code.UNKNOWN_MECHANISM),
        (damaged({}, {"epsilon": -1}), Code.BAD_RELEASE),
        (damaged({}, {"epsilon": "nan"}), Code.BAD_RELEASE),
        (damaged({}, {"scope": [{"part": "1", "partition": "p", "by": "x"}]}), Code.BAD_SCOPE),
        (damaged({"version": True}), Code.BAD_LEDGER_FILE),
        (damaged({"version": 2.0}), Code.BAD_LEDGER_FILE),
        (damaged({"budget": [10**400, 0]}), Code.BAD_LEDGER_FILE),
        (damaged({"budget": [10**299, 10**299]}), Code.BAD_RELEASE),
        (damaged({"taken": [["counts", "public", -1]]}), Code.BAD_LEDGER_FILE),
        (damaged({"taken": [["counts", "public", 0.5]]}), Code.BAD_LEDGER_FILE),
        (damaged({"taken": [["counts", "public", 10**400]]}), Code.BAD_LEDGER_FILE),
        (damaged({}, {"epsilon": 10**400}), Code.BAD_LEDGER_FILE),
        (damaged({}, {"times": 10**400}), Code.BAD_LEDGER_FILE),
        (damaged({}, {"times": 10**299}), Code.BAD_RELEASE),
        (damaged({}, {"scope": [{"step": "down"}] * 5000}), Code.BAD_SCOPE),
        (damaged({}).replace('"version": 2', '"version": 2, "version": 2'), Code.BAD_LEDGER_FILE),
        (damaged({}).replace('"times": 1', '"times": 9, "times": 1'), Code.BAD_LEDGER_FILE),
        (damaged({}).replace('"epsilon": 1.0', '"epsilon": 1e999'), Code.BAD_LEDGER_FILE),
        ("[" * 100_000, Code.BAD_LEDGER_FILE),
        ('{"schema":' * 100_000, Code.BAD_LEDGER_FILE),
        ("no json", Code.BAD_LEDGER_FILE),
    ],
    ids=lambda value: getattr(value, "name", None) or repr(value[-20:]),
)
def test_damaged_files_are_refused_with_a_number(text: str, code: Code) -> None:
    with pytest.raises(HedgerowError) as error:
        Ledger.from_json(text)
    assert error.value.code is code


@pytest.mark.parametrize(
    "entry", [{"kind": "refund", "inside": None}, {"kind": "charge", "inside": 0}]
)
def test_unknown_kinds_of_entries_are_refused(entry: dict[str, object]) -> None:
    text = damaged({"entries": [{**entry, "release": release().to_dict()}]})
    with pytest.raises(FormatError, match="H211"):
        Ledger.from_json(text)


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "charge", "inside": None, "together": True, "release": release().to_dict()},
        {"kind": "charge", "inside": None, "release": release().to_dict(), "aside": 1},
    ],
)
def test_odd_calls_in_a_file_are_refused(entry: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="H211"):
        Ledger.from_json(damaged({"entries": [entry]}))


def test_a_call_is_read_line_by_line_under_its_budget() -> None:
    """As a journal does, which is read with the budget already set."""
    call = [gaussian(0.02), gaussian(0.01), release(0.3)]
    needed = tightest(call, 1e-6).epsilon
    ledger = Ledger(budget=(needed, 1e-6))
    ledger.charge(*call)
    again = Ledger(budget=(needed, 1e-6))
    for entry in json.loads(ledger.to_json())["entries"]:
        again._replay(**entry)
    assert again.to_json() == ledger.to_json()
    assert again.charged("sums") == 2
    with pytest.raises(PrivacyError, match="H207"):
        again.charge(gaussian(1e-9))
    again.charge(release(0.0))


def test_files_of_version_1_are_read() -> None:
    ledger = ledger_of([release(0.3), release(0.4, audience="analyst")], budget=1.0)
    data = json.loads(ledger.to_json())
    assert data["version"] == 2
    data["version"] = 1
    del data["delta"]
    for entry in data["entries"]:
        del entry["release"]["rho"], entry["release"]["sample_rate"]
    again = Ledger.from_json(json.dumps(data))
    assert again.to_json() == ledger.to_json()
    with pytest.raises(FormatError, match="H211"):
        Ledger.from_json(json.dumps({**data, "delta": 1e-6}))


def test_who_takes_part_is_written_in_files_of_version_3_alone() -> None:
    ledger = Ledger(parties=["site 0", "site 1"])
    data = json.loads(ledger.to_json())
    assert (data["version"], data["parties"]) == (3, ["site 0", "site 1"])
    assert Ledger.from_json(json.dumps(data)).to_json() == ledger.to_json()
    assert Ledger.from_json(json.dumps({**data, "parties": []})).parties == ()
    assert "parties" not in json.loads(Ledger().to_json())
    for wrong in ({"parties": "site 0"}, {"parties": None}, {"version": 2}):
        with pytest.raises(FormatError, match="H211"):
            Ledger.from_json(json.dumps({**data, **wrong}))
    with pytest.raises(HedgerowError, match="H205"):
        Ledger.from_json(json.dumps({**data, "parties": ["nobody"]}))


def test_releases_by_rho_in_tables() -> None:
    events = [gaussian(0.05, reason="sums", sample_rate=0.1, times=9), release(0.5)]
    ledger = Ledger(budget=(2.0, 1e-6))
    ledger.charge(*events)
    lines = str(ledger).splitlines()
    # At the delta of the budget, once for each relation.
    assert [line.split()[:4:2] for line in lines[1:3]] == [["public", "1e-06"]] * 2
    assert lines[3:6] == ["", WHICH, ""]
    assert lines[6:8] == [
        "kind    reason  audience  mechanism            epsilon  rho   sample_rate  delta  times",
        "charge  sums    public    discrete gaussian             0.05  0.1          0      9",
    ]
    assert "rho" not in str(ledger_of([release(0.5)]))


def test_tables_for_the_eye() -> None:
    levels = [ROOT / step(f"level {i}") / part(NODES, EACH) for i in range(5)]
    events = [release(0.1, s, reason="split", mechanism="noisy max") for s in levels]
    ledger = ledger_of([*events, release(0.5, reason="leaf counts", claimed=0.25)])
    assert [row["scope"] for row in ledger.table()][:2] == [
        "level 0 / nodes: each",
        "level 1 / nodes: each",
    ]
    add, replaced = ledger.summary()
    assert (add["epsilon"], replaced["epsilon"]) == (1.0, 2.0)
    assert (add["claimed"], add["private"], add["why"]) == (0.75, "yes", "")
    assert str(ledger).splitlines() == [
        "audience  epsilon  delta  relation    claimed  private",
        "public    1        0      add/remove  0.75     yes",
        "public    2        0      replace     0.75     yes",
        "",
        WHICH,
        "",
        "kind    reason       audience  mechanism            epsilon  delta  times",
        "charge  split        public    noisy max            0.1      0      5",
        "charge  leaf counts  public    two-sided geometric  0.5      0      1",
    ]
    assert repr(ledger).startswith("<Ledger with 6 entries; public: epsilon 1,")


def test_a_fresh_interpreter_knows_the_mechanisms_of_a_file() -> None:
    names = ["exact", "exponential mechanism", "noisy max", "permute-and-flip"]
    events = [release(math.inf, mechanism=name) for name in [*names, "two-sided geometric"]]
    code = (
        "import sys; from hedgerow.privacy.ledger import Ledger; "
        "print([r.rule.name for r in Ledger.from_json(sys.stdin.read()).releases])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=ledger_of(events).to_json(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str([*names, "two-sided geometric"])


def test_the_page_about_the_ledger_shows_what_its_examples_print(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/ledger.md").read_text()
    codes = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    shown = re.findall(r"^```text\n(.*?)^```", page, re.M | re.S)
    names: dict[str, object] = {}
    for code, text in zip(codes, shown, strict=True):
        exec(compile(code, "ledger.md", "exec"), names)
        assert capsys.readouterr().out == text


def test_the_pairs_of_servers_are_printed_in_one_row() -> None:
    ledger = Ledger()
    for server in range(3):
        ledger.mark_not_private("shares", [f"server {server}", f"server {(server + 1) % 3}"])
    lines = [line for line in str(ledger).splitlines() if "server" in line]
    assert len(lines) == 1
    assert lines[0].startswith("any two of server 0, server 1, server 2")
    assert len([row for row in ledger.summary() if "server" in row["audience"]]) == 6
