"""The ledger: charges, budgets, reservations, totals, JSON and tables."""

import copy
import json
import math
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import Code, FormatError, HedgerowError, PrivacyError
from hedgerow.privacy.accounting import Guarantee, Relation, tightest
from hedgerow.privacy.entries import Budget, Reservation
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import EACH, ROOT, part, step
from hedgerow.privacy.statement import WHICH
from tests.privacy.release_strategies import (
    AUDIENCES,
    FINITE,
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


def test_of_which_tables_add_remove_holds_is_written_in_files_of_version_5_alone() -> None:
    ledger = Ledger(capacity=3000)
    ledger.charge(release(1.0))
    data = json.loads(ledger.to_json())
    assert (data["version"], data["capacity"]) == (5, 3000)
    for one in (ledger, Ledger.from_json(json.dumps(data)), pickle.loads(pickle.dumps(ledger))):
        assert one.to_json() == ledger.to_json()
        assert "at most 3,000 rows" in one.condition
        assert str(one).endswith(one.condition)
    for wrong in ({"capacity": 0}, {"capacity": None}, {"capacity": 3000.0}, {"version": 4}):
        with pytest.raises(FormatError, match="H211"):
            Ledger.from_json(json.dumps({**data, **wrong}))
    with pytest.raises(HedgerowError, match="H205"):
        Ledger(capacity=0)
    plain = ledger_of([release(1.0)])
    assert plain.condition == ""
    assert "capacity" not in json.loads(plain.to_json())
    # Where add/remove promises nothing, it promises nothing of short tables either.
    ledger.mark_not_private("the noise was seeded")
    assert ledger.condition == ""


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


def test_charges_are_kept_in_order() -> None:
    ledger = ledger_of([release(1.0), release(2.0)])
    assert [r.epsilon for r in ledger.releases] == [1.0, 2.0]
    assert ledger.total() == Guarantee(3.0, 0.0)
    assert Ledger().total() == Guarantee(0.0, 0.0)


@pytest.mark.parametrize("event", [None, 1.0, {"epsilon": 1.0}, "counts"])
def test_an_unknown_event_raises(event: object) -> None:
    with pytest.raises(PrivacyError, match="H204"):
        Ledger().charge(event)  # type: ignore[arg-type]


def test_a_domain_read_from_the_data_allows_no_finite_epsilon() -> None:
    ledger = Ledger(Provenance(is_public=False))
    for charge in (ledger.charge, ledger.reserve):
        with pytest.raises(PrivacyError, match="H202") as error:
            charge(release(1.0))
        assert error.value.code is Code.DOMAIN_READ_FROM_DATA
    assert ledger.entries == ()
    ledger.charge(release(math.inf))
    assert ledger.total().epsilon == math.inf
    Ledger(Provenance(is_public=True)).charge(release(1.0))


def test_the_budget_holds_for_every_audience_and_a_refusal_changes_nothing() -> None:
    ledger = ledger_of([release(0.6), release(0.4, audience="server 0")], budget=1.0)
    before = ledger.to_json()
    for refused in (
        release(0.1),  # would bring server 0 to 1.1
        release(0.1, audience="server 0"),
        release(0.5, audience="owner 1"),
        release(math.inf),
        release(0.0, delta=1e-6),
    ):
        with pytest.raises(PrivacyError, match="H207"):
            ledger.charge(refused)
        with pytest.raises(PrivacyError, match="H207"):
            ledger.reserve(refused)
        assert ledger.to_json() == before
    ledger.charge(release(0.4, audience="owner 1"))
    ledger.charge(release(0.0))


def test_several_charges_are_made_together_or_not_at_all() -> None:
    ledger = Ledger(budget=1.0)
    with pytest.raises(PrivacyError, match="H207"):
        ledger.charge(release(0.6), release(0.6))
    with pytest.raises(PrivacyError, match="H204"):
        ledger.charge(release(0.6), None)  # type: ignore[arg-type]
    assert ledger.entries == ()
    ledger.charge(release(0.6), release(0.4))
    ledger.charge()
    assert ledger.total().epsilon == 1.0


def test_a_reservation_is_the_charge_and_what_happens_in_it_is_information() -> None:
    growth = ROOT / step("growth")
    ledger = Ledger()
    held = ledger.reserve(release(0.5, growth, times=8, reason="splits"))
    for i in range(3):
        ledger.realise(held, release(0.5, growth / step(f"split {i}")))
    assert ledger.total().epsilon == 4
    assert ledger.realised_total().epsilon == 1.5
    assert [entry.kind for entry in ledger.entries] == ["reservation", *["realised"] * 3]
    assert ledger.charged("splits") == 8
    before = ledger.to_json()
    for code, wrong in (
        ("H207", release(2.6, growth)),
        ("H207", release(0.6, growth)),
        ("H207", release(0.1, growth, delta=1e-9)),
        ("H205", release(0.1, ROOT)),
        ("H205", release(0.1, growth, audience="server 0")),
    ):
        with pytest.raises(PrivacyError, match=code):
            ledger.realise(held, wrong)
    for stranger in (Reservation(7, held.release), Reservation(1, held.release)):
        with pytest.raises(PrivacyError, match="H205"):
            ledger.realise(stranger, release(0.1, growth))
    assert ledger.to_json() == before
    ledger.realise(held, release(0.5, growth, times=5))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.realise(held, release(0.0001, growth))


def test_a_reservation_in_each_part_covers_every_part() -> None:
    ledger = Ledger()
    held = ledger.reserve(release(1.0, ROOT / part(NODES, EACH)))
    ledger.realise(held, release(0.9, ROOT / part(NODES, "x")))
    ledger.realise(held, release(0.8, ROOT / part(NODES, "y")))
    with pytest.raises(PrivacyError, match="H207"):
        ledger.realise(held, release(0.2, ROOT / part(NODES, EACH)))


def test_charged_counts_what_reaches_an_audience() -> None:
    ledger = ledger_of([release(audience="analyst ana", times=2), release(audience="analyst")])
    assert ledger.charged("counts") == 3
    assert ledger.charged("counts", "analyst ana") == 3
    assert ledger.charged("counts", "analyst ben") == 1
    assert ledger.charged("counts", "analyst") == 1
    assert ledger.charged("other") == 0


def test_a_domain_read_from_the_data_allows_no_rho() -> None:
    with pytest.raises(PrivacyError, match="H202"):
        Ledger(Provenance(is_public=False)).charge(gaussian(0.1))


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan, "1e-6"])
def test_odd_deltas_are_refused(delta: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        Ledger(delta=delta)  # type: ignore[arg-type]


def test_charging_from_many_threads_loses_nothing() -> None:
    ledger = Ledger(budget=100.0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ledger.charge, [release(0.25) for _ in range(200)]))
    assert ledger.total().epsilon == 50


@pytest.mark.parametrize("budget", [None, 2.0])
def test_estimators_that_hold_a_ledger_can_be_copied(budget: float | None) -> None:
    ledger = ledger_of([release(1.0)], budget=budget)
    for again in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        again.charge(release(1.0))
        assert again.total().epsilon == 2
    assert ledger.total().epsilon == 1
    ledger.charge(release(1.0))


@relaxed
@given(release_lists(), st.sampled_from(AUDIENCES), st.sampled_from(Relation))
def test_public_releases_count_for_everyone(
    events: list[Release], audience: str, relation: Relation
) -> None:
    ledger = ledger_of(events)
    public, total = ledger.total("public", relation), ledger.total(audience, relation)
    assert total.epsilon >= public.epsilon
    assert total.delta >= public.delta
    for event in events:
        if event.audience in ("public", audience):
            assert total.epsilon >= event.epsilon


@relaxed
@given(release_lists(), st.lists(st.sampled_from(AUDIENCES), min_size=2, max_size=3))
def test_coalitions_learn_at_least_what_each_member_learns_and_at_most_the_sum(
    events: list[Release], members: list[str]
) -> None:
    ledger = ledger_of(events)
    together = ledger.coalition(members).epsilon
    alone = [ledger.total(member).epsilon for member in members]
    assert max(alone) <= together <= sum(alone) * (1 + 1e-12)


def test_coalitions_add_up_without_counting_public_releases_twice() -> None:
    ledger = ledger_of([release(1.0), release(2.0, audience="server 0")])
    ledger.charge(release(4.0, audience="server 1"))
    assert ledger.total("public").epsilon == 1
    assert ledger.total("server 0").epsilon == 3
    assert ledger.total("owner 7").epsilon == 1
    assert ledger.coalition(["server 0", "server 1"]).epsilon == 7
    assert ledger.total("server").epsilon == 7
    assert ledger.tightest(["server 0", "server 1"], 0).epsilon == 7
    assert ledger.audiences == ("public", "server 0", "server 1")


def test_a_role_is_told_together_and_counted_together() -> None:
    ledger = ledger_of([release(1.0, audience="analyst"), release(2.0, audience="analyst ana")])
    assert ledger.total("analyst ana").epsilon == 3
    assert ledger.total("analyst ben").epsilon == 1
    assert ledger.total("analyst").epsilon == 3


@pytest.mark.parametrize("audience", ["nobody", "", None])
def test_unknown_audiences_are_refused(audience: object) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        Ledger().total(audience)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="H205"):
        Ledger().coalition([])


def test_an_audience_that_is_none_is_told_which_there_are() -> None:
    ledger = Ledger()
    ledger.charge(release(audience="analyst"))
    ledger.mark_not_private("shares", ["server 0", "server 1"])
    for ask in (ledger.total, ledger.formal_total, lambda name: ledger.tightest(name, 1e-6)):
        with pytest.raises(HedgerowError) as caught:
            ask("server 0 + server 1")
        assert caught.value.code is Code.BAD_RELEASE
        assert caught.value.expected.endswith("public, analyst, server 0, server 1")
        assert "coalition(['server 0', 'server 1'])" in caught.value.fix
    assert math.isinf(ledger.coalition(["server 0", "server 1"]).epsilon)
    with pytest.raises(HedgerowError, match="name one of them"):
        ledger.total("nobody")


def test_a_ledger_that_says_who_takes_part_knows_nobody_else() -> None:
    ledger = Ledger(parties=["site 0", "site 1", "server 0"])
    ledger.charge(release(1.0), release(2.0, audience="site 0"), release(3.0, audience="owner"))
    ledger.mark_not_private("shares", ["peer 0"])
    for again in (ledger, Ledger.from_json(ledger.to_json())):
        assert [again.total(f"site {i}").epsilon for i in (0, 1)] == [3, 1]
        # A role is all who hold it; who is named by a charge or a mark is known by that.
        assert again.total("site").epsilon == again.coalition("site").epsilon == 3
        assert again.total("server").epsilon == again.total("server 0").epsilon == 1
        assert again.total("owner 7").epsilon == again.total("owner").epsilon == 4
        assert again.total("peer 0").why == "shares"
        for ask in (
            again.total,
            again.formal_total,
            again.realised_total,
            again.claimed_total,
            again.calls,
            lambda name, ledger=again: ledger.tightest(name, 1e-6),
            lambda name, ledger=again: ledger.coalition(["site 0", name]),
        ):
            for nobody in ("site 7", "server 1", "peer 1", "analyst", "analyst ana"):
                with pytest.raises(HedgerowError, match=f"Found: audience '{nobody}'") as caught:
                    ask(nobody)
                assert caught.value.code is Code.BAD_RELEASE
                assert caught.value.expected.startswith("an audience of this ledger: public, site")
    assert Ledger().total("site 7").epsilon == 0


def test_not_private_is_infinite_and_says_why() -> None:
    ledger = ledger_of([release(1.0)])
    ledger.mark_not_private("seeded noise")
    ledger.mark_not_private("seeded noise")
    ledger.mark_not_private("test run")
    for found in (ledger.total(), ledger.tightest("public", 1e-6), ledger.coalition(["peer 1"])):
        assert found.epsilon == math.inf
        assert not found.private
        assert found.why == "seeded noise; test run"
    assert ledger.formal_total() == Guarantee(1.0, 0.0)
    with pytest.raises(PrivacyError, match="H205"):
        ledger.mark_not_private(" ")


def test_a_mark_may_concern_a_coalition_only() -> None:
    ledger = ledger_of([release(1.0)])
    ledger.mark_not_private("two servers hold all shares", ["server 0", "server 1"])
    assert ledger.total("server 0").epsilon == 1
    assert ledger.coalition(["server 0", "owner 1"]).epsilon == 1
    assert ledger.coalition(["server 0", "server 1"]).epsilon == math.inf
    assert ledger.total("server").epsilon == math.inf
    ledger.mark_not_private("alignment reveals membership", "peer")
    assert ledger.total("peer 1").why == "alignment reveals membership"
    assert ledger.total("public").epsilon == 1


def test_a_mark_may_be_about_one_relation_only() -> None:
    ledger = Ledger()
    ledger.charge(release(0.5, audience="peer"))
    before = json.loads(ledger.to_json())["version"]
    ledger.mark_not_private("peers know who is there", ["peer"], Relation.ADD_REMOVE)
    assert json.loads(ledger.to_json())["version"] > before
    for one in (ledger, Ledger.from_json(ledger.to_json()), pickle.loads(pickle.dumps(ledger))):
        assert one.total("peer 0").why == "peers know who is there"
        assert one.total("peer 0", Relation.REPLACE).epsilon == 1.0
        assert one.total("public").epsilon == 0.0
        assert one.not_private == ledger.not_private
    text = ledger.to_json().replace('"add/remove"', '"more or less"')
    with pytest.raises(FormatError, match="H211"):
        Ledger.from_json(text)


def test_a_reason_is_told_once_and_charges_are_told_beside_marks() -> None:
    ledger = ledger_of([release(1.0), release(2.0, audience="server")])
    for i in range(3):
        ledger.mark_not_private("two hold all", [f"server {i}", f"server {(i + 1) % 3}"])
    assert ledger.total("server").why == "two hold all"
    assert ledger.formal_total("server") == Guarantee(3.0, 0.0)
    for reason in ("shape", "labels"):
        ledger.charge(release(math.inf, audience="server", mechanism="exact", reason=reason))
    both = "no finite epsilon: shape, labels"
    for found in (ledger.total("server"), ledger.tightest("server", 1e-6)):
        assert found.why == f"{both}; two hold all"
    assert ledger.total("server 0").why == both
    for found in (ledger.formal_total("server"), ledger.realised_total("server")):
        assert (found.epsilon, found.method, found.why) == (math.inf, "none", both)
    assert ledger.formal_total() == Guarantee(1.0, 0.0)


def test_infinity_says_which_release_it_came_from() -> None:
    ledger = ledger_of([release(1.0), release(math.inf, reason="tree shape", claimed=0.5)])
    assert ledger.total().epsilon == ledger.total(relation=Relation.REPLACE).epsilon == math.inf
    assert ledger.total().why == "no finite epsilon: tree shape"
    assert ledger.claimed_total() == 1.5
    assert ledger.claimed_total("server 0") == 1.5
    assert ledger_of([release(1.0)]).claimed_total() is None


@relaxed
@given(release_lists(FINITE, max_size=4), st.sampled_from([0.0, 1e-6, 0.1]))
def test_tightest_is_at_most_the_total(events: list[Release], delta: float) -> None:
    ledger = ledger_of(events)
    total, found = ledger.total(), ledger.tightest("public", delta)
    assert found.epsilon <= total.epsilon or total.delta > delta


def test_releases_by_rho_are_told_at_a_delta() -> None:
    events = [gaussian(0.05, times=4), release(0.5), gaussian(0.1, audience="server 0")]
    ledger, open_ = ledger_of(events, delta=1e-6), ledger_of(events)
    total = ledger.total()
    assert total == ledger.formal_total()
    assert (total.delta, total.method) == (1e-6, "sum of 2 calls")
    assert total.epsilon == tightest(events[:1], 1e-6).epsilon + 0.5
    assert ledger.total("server 0") == ledger.coalition(["server 0", "owner 1"])
    assert ledger.total("server 0").delta == 2e-6
    assert ledger.total("server 0").epsilon > total.epsilon
    assert open_.total().epsilon == open_.formal_total().epsilon == math.inf
    assert "give the ledger" in open_.total().why
    assert "give the ledger" in open_.summary()[0]["why"]
    row = ledger.summary()[0]
    assert (row["epsilon"], row["delta"], row["why"]) == (total.epsilon, 1e-6, "sum of 2 calls")
    assert Ledger.from_json(ledger.to_json()).total() == total
    ledger.mark_not_private("seeded noise")
    assert ledger.total().why == "seeded noise"
    assert ledger.formal_total() == total
    ledger.charge(release(math.inf, mechanism="exact", reason="shape"))
    assert ledger.formal_total().epsilon == math.inf
    assert ledger_of([*events, release(math.inf, reason="shape")], delta=1e-6).total().why == (
        "no finite epsilon: shape"
    )
    # Who sees none of them is told as before.
    only = ledger_of([release(0.5), gaussian(0.1, audience="server 0")], delta=1e-6)
    assert only.total() == Guarantee(0.5, 0.0)


def test_one_call_is_told_by_its_tightest_figure() -> None:
    call = [gaussian(0.05, times=4), release(0.5), gaussian(0.1, audience="server 0")]
    ledger = Ledger(delta=1e-6)
    ledger.charge(*call)
    for relation in Relation:
        found = tightest(call[:2], 1e-6, relation)
        assert ledger.total("public", relation) == found
        assert ledger.formal_total("public", relation) == found
        assert ledger.tightest("public", 1e-6, relation) == found
        assert ledger.total("server 0", relation) == tightest(call, 1e-6, relation)
    assert ledger.total().method == "RDP"


def test_totals_of_calls_that_follow_from_each_other_add_up() -> None:
    """One who stops when the loss exceeds what a curve over all calls says finds it too small."""
    rhos = [0.01 * 1.3**k for k in range(20)]
    ledger = Ledger(delta=1e-2)
    for k, rho in enumerate(rhos, 1):
        ledger.charge(gaussian(rho, ROOT / step(f"query {k}")))
        for relation in Relation:
            pairs = [tightest([gaussian(r)], 1e-2, relation) for r in rhos[:k]]
            for total in (
                ledger.total("public", relation),
                ledger.coalition(["server 0"], relation),
            ):
                assert total.epsilon == pytest.approx(sum(pair.epsilon for pair in pairs))
                assert total.delta == pytest.approx(k * 1e-2)
                assert total.private
            assert ledger.formal_total("public", relation) == total
    together = ledger.tightest("public", 20e-2)
    assert together.epsilon < ledger.total().epsilon / 2
    assert together.method == "RDP, all charges fixed in advance"
    assert "all charges fixed in advance" not in str(ledger)
    lines = [line.split() for line in str(ledger).splitlines()[1:3]]
    assert [(line[2], " ".join(line[-4:])) for line in lines] == [("0.2", "sum of 20 calls")] * 2
    assert Ledger.from_json(ledger.to_json()).summary() == ledger.summary()
    # A delta of 1 or more is none.
    lax = ledger_of([gaussian(0.01), gaussian(0.01)], delta=0.6)
    assert (lax.total().delta, lax.total().private) == (1.0, False)


def test_calls_without_a_rho_cost_no_delta_and_keep_their_partitions() -> None:
    one, other = ROOT / part(NODES, "x"), ROOT / part(NODES, "y")
    pure = [release(0.5, one, delta=1e-9), release(0.7, other), release(0.1)]
    ledger = ledger_of([pure[0], gaussian(0.02, one), *pure[1:], gaussian(0.02, other)], delta=1e-6)
    each = tightest([gaussian(0.02)], 1e-6).epsilon
    total = ledger.total()
    assert total.epsilon == pytest.approx(0.8 + 2 * each, rel=1e-12)
    assert total.delta == pytest.approx(1e-9 + 2e-6, rel=1e-12)
    twice = ledger.total("public", Relation.REPLACE)
    each = tightest([gaussian(0.02)], 1e-6, Relation.REPLACE).epsilon
    assert twice.epsilon == pytest.approx(1.6 + 2 * each, rel=1e-12)
    assert twice.delta == pytest.approx((1 + math.exp(0.8)) * 1e-9 + 2e-6, rel=1e-9)


def test_the_condition_of_the_tightest_figure_is_named_where_it_matters() -> None:
    ledger = ledger_of([release(0.02, times=500)] * 2)
    assert ledger.tightest("public", 1e-6).method.endswith("(PLD), all charges fixed in advance")
    assert "fixed in advance" in str(ledger.tightest("public", 1e-6))
    # Basic composition holds for whatever was chosen when, and one call is fixed by itself.
    assert ledger.tightest("public", 0.0).method == "basic composition"
    ledger = ledger_of([release(0.02, times=500), release(0.3, audience="server 0")])
    assert ledger.tightest("public", 1e-6).method == "optimal composition (PLD)"
    assert ledger.tightest("server 0", 1e-6).method.endswith("fixed in advance")


def test_what_was_spent_in_a_reservation_is_one_call() -> None:
    ledger = Ledger(delta=1e-6)
    held = [ledger.reserve(gaussian(0.1, ROOT / step(name), times=2)) for name in "ab"]
    for reservation in (*held, *held):
        ledger.realise(reservation, replace(reservation.release, times=1))
    assert ledger.realised_total() == ledger.total()
    assert ledger.total().delta == 2e-6
    assert ledger.total().epsilon == 2 * tightest([gaussian(0.1, times=2)], 1e-6).epsilon
