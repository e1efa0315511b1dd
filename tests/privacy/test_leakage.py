"""Declared leakage: refusals before anything is sent, counts, comparison, JSON."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, FormatError, HedgerowError, LeakageError
from hedgerow.privacy.leakage import Leakage
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.opening import Opening
from hedgerow.privacy.release import Release
from hedgerow.privacy.scopes import ROOT
from tests.privacy.release_strategies import release

SPLITS = Opening("splits", "public", ("nodes",), release="split", times="depth")
MASKED = Opening("masked", "server 1", (2, "rows"), independent="a uniform mask hides it")
OWN = Opening("own part", "owner", lambda p: (p["rows"],), independent="theirs", times=3)
DECLARED = [SPLITS, MASKED, OWN]
PUBLIC = {"nodes": 4, "depth": 2, "rows": 10}


@pytest.mark.parametrize(
    ("code", "name", "to", "shape"),
    [
        (Code.UNDECLARED_OPENING, "secret counts", "public", (4,)),
        (Code.UNDECLARED_OPENING, None, "public", (4,)),
        (Code.WRONG_AUDIENCE, "masked", "server 2", (2, 10)),
        (Code.WRONG_AUDIENCE, "masked", "public", (2, 10)),
        (Code.WRONG_AUDIENCE, "masked", "server", (2, 10)),
        (Code.WRONG_AUDIENCE, "own part", "analyst", (10,)),
        (Code.WRONG_AUDIENCE, "masked", "whoever", (2, 10)),
        (Code.WRONG_AUDIENCE, "masked", None, (2, 10)),
        (Code.WRONG_OPENING_SHAPE, "splits", "public", (5,)),
        (Code.WRONG_OPENING_SHAPE, "splits", "public", (4, 1)),
        (Code.WRONG_OPENING_SHAPE, "splits", "public", ()),
    ],
)
def test_what_differs_from_the_declaration_is_refused_and_not_recorded(
    code: Code, name: str, to: str, shape: tuple[int, ...]
) -> None:
    leakage = Leakage(DECLARED, **PUBLIC)
    with pytest.raises(LeakageError) as error:
        leakage.check(name, to, shape)
    assert error.value.code is code
    assert all(row["opened"] == 0 for row in leakage.compare())


def charged_twice() -> Ledger:
    """A ledger that has paid for both openings of the splits."""
    ledger = Ledger()
    charge(ledger)
    charge(ledger)
    return ledger


def test_more_openings_than_declared_are_refused() -> None:
    leakage = Leakage(DECLARED, ledger=charged_twice(), **PUBLIC)
    leakage.check("splits", "public", [4])
    leakage.check("splits", "public", (4,))
    with pytest.raises(LeakageError, match="H304"):
        leakage.check("splits", "public", (4,))
    never = Leakage([Opening("n", "public", (), independent="x", times=0)])
    with pytest.raises(LeakageError, match="H304"):
        never.check("n", "public", ())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"release": "split", "independent": "a mask"},
        {"release": ""},
        {"independent": "  "},
        {"independent": "a mask", "audience": "everybody"},
        {"independent": "a mask", "name": ""},
        {"independent": "a mask", "name": None},
    ],
)
def test_declarations_name_an_audience_and_one_reason(fields: dict[str, str]) -> None:
    with pytest.raises(LeakageError, match="H305"):
        Opening(**{"name": "n", "audience": "public", "shape": (), **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": ("columns",)},
        {"shape": (-1,)},
        {"shape": (1.5,)},
        {"shape": (True,)},
        {"shape": 3},
        {"shape": lambda p: None},
        {"shape": lambda p: ("rows",), "times": "no such"},
        {"times": -1},
        {"times": "columns"},
        {"times": None},
        {"per_release": 0},
    ],
)
def test_shapes_and_counts_come_from_public_parameters(fields: dict[str, object]) -> None:
    opening = Opening(
        **{"name": "n", "audience": "public", "shape": (), "independent": "x", **fields}
    )
    with pytest.raises(LeakageError, match="H305"):
        Leakage([opening], **PUBLIC)


def test_a_name_is_declared_once() -> None:
    with pytest.raises(LeakageError, match="H305"):
        Leakage([SPLITS, SPLITS], **PUBLIC)


def test_what_each_audience_learned() -> None:
    leakage = Leakage(DECLARED, ledger=charged_twice(), **PUBLIC)
    leakage.check("splits", "public", (4,))
    leakage.check("splits", "public", (4,))
    leakage.check("masked", "server 1", (2, 10))
    leakage.check("own part", "owner 2", (10,))
    leakage.check("own part", "owner 3", (10,))
    splits = {
        "name": "splits",
        "audience": "public",
        "times": 2,
        "values": 8,
        "why": "release: split",
    }
    assert leakage.what_was_learned("public") == [splits]
    assert leakage.what_was_learned("server 0") == [splits]
    assert leakage.what_was_learned("server 1")[1] == {
        "name": "masked",
        "audience": "server 1",
        "times": 1,
        "values": 20,
        "why": "independent: a uniform mask hides it",
    }
    assert [row["times"] for row in leakage.what_was_learned("owner 2")] == [2, 1]
    assert [row["times"] for row in leakage.what_was_learned("owner")] == [2, 2]
    assert leakage.compare() == [
        {"name": "splits", "declared": 2, "opened": 2, "equal": True},
        {"name": "masked", "declared": 1, "opened": 1, "equal": True},
        {"name": "own part", "declared": 3, "opened": 2, "equal": False},
    ]
    with pytest.raises(HedgerowError, match="H205"):
        leakage.what_was_learned("nobody")


def test_the_declaration_as_a_table() -> None:
    leakage = Leakage([*DECLARED, Opening("root", "public", (), independent="public")], **PUBLIC)
    rows = leakage.declaration()
    assert [row["shape"] for row in rows] == ["4", "2x10", "10", "one number"]
    assert [row["times"] for row in rows] == [2, 1, 3, 1]
    heading, first, *_ = str(leakage).splitlines()
    assert heading.split() == ["name", "audience", "shape", "times", "why", "opened"]
    assert first.split() == ["splits", "public", "4", "2", "release:", "split", "0"]
    assert str(Leakage([])) == "nothing is opened"


def test_a_release_is_charged_before_it_is_opened() -> None:
    ledger = Ledger()
    leakage = Leakage(DECLARED, ledger=ledger, **PUBLIC)
    leakage.check("masked", "server 1", (2, 10))  # independent: nothing to pay
    for _ in range(2):
        with pytest.raises(LeakageError, match="H306"):
            leakage.check("splits", "public", (4,))
        ledger.charge(release(reason="split"))
        leakage.check("splits", "public", (4,))


def test_a_charge_to_one_does_not_pay_for_another() -> None:
    ledger = Ledger()
    opening = Opening("counts", "owner", (), release="counts", times=9)
    leakage = Leakage([opening], ledger=ledger)
    ledger.charge(release(audience="owner 1"))
    for to in ("owner 2", "owner"):
        with pytest.raises(LeakageError, match="H306"):
            leakage.check("counts", to, ())
    leakage.check("counts", "owner 1", ())
    with pytest.raises(LeakageError, match="H306"):
        leakage.check("counts", "owner 1", ())
    # A charge to the whole role pays for one value, not for one value each.
    ledger.charge(release(audience="owner"))
    leakage.check("counts", "owner 2", ())
    with pytest.raises(LeakageError, match="H306"):
        leakage.check("counts", "owner 3", ())


def test_one_release_may_be_opened_in_pieces() -> None:
    ledger = Ledger()
    opening = Opening("counts", "server", (5,), release="counts", times=6, per_release="servers")
    leakage = Leakage([opening], ledger=ledger, servers=3)
    ledger.charge(release(audience="server"))
    for i in range(3):
        leakage.check("counts", f"server {i}", (5,))
    with pytest.raises(LeakageError, match="H306"):
        leakage.check("counts", "server 0", (5,))


@given(st.integers(0, 4), st.integers(1, 3), st.integers(0, 9))
def test_never_more_openings_than_declared_or_charged(
    times: int, charges: int, attempts: int
) -> None:
    ledger = Ledger()
    ledger.charge(release(times=charges))
    opening = Opening("c", "public", (2,), release="counts", times=times)
    leakage = Leakage([opening], ledger=ledger)
    for attempt in range(attempts):
        if attempt < min(times, charges):
            leakage.check("c", "public", (2,))
        else:
            with pytest.raises(LeakageError, match=r"H30[46]"):
                leakage.check("c", "public", (2,))
    assert leakage.compare()[0]["opened"] == min(times, charges, attempts)


def test_several_openings_at_once_need_one_charge_for_all_of_them() -> None:
    ledger = Ledger()
    ledger.charge(release(reason="split"))
    pieces = Opening("pieces", "public", (), release="split", times=10, per_release=4)
    leakage = Leakage([pieces], ledger=ledger)
    leakage.check("pieces", "public", (), times=3)
    for times, code in ((2, Code.TOO_MANY_OPENINGS), (8, Code.TOO_MANY_OPENINGS)):
        with pytest.raises(LeakageError) as caught:
            leakage.check("pieces", "public", (), times=times)
        assert caught.value.code is code
    leakage.check("pieces", "public", ())
    with pytest.raises(HedgerowError) as caught:
        leakage.check("pieces", "public", (), times=2)
    assert caught.value.code is Code.NOT_CHARGED
    assert leakage.compare()[0]["opened"] == 4


def test_json_round_trip() -> None:
    leakage = Leakage(DECLARED, ledger=charged_twice(), **PUBLIC)
    leakage.check("splits", "public", (4,))
    leakage.check("own part", "owner 2", (10,))
    leakage.check("own part", "owner 2", (10,))
    again = Leakage.from_json(leakage.to_json())
    assert again.to_json() == leakage.to_json()
    assert again.openings == leakage.openings
    assert again.what_was_learned("owner 2") == leakage.what_was_learned("owner 2")
    with pytest.raises(LeakageError, match="H306"):
        Leakage.from_json(leakage.to_json(), ledger=Ledger())


def paid(ledger: Ledger, *names: str) -> Leakage:
    openings = [Opening(name, "public", (1,), release="split", times=5) for name in names]
    return Leakage(openings, ledger=ledger)


def charge(ledger: Ledger) -> None:
    ledger.charge(Release("noisy max", 1.0, 0.0, 1, ROOT, "public", "split"))


def test_one_charge_pays_for_one_value_only() -> None:
    # The index of noisy max is paid for; its noisy value is a second release.
    ledger = Ledger()
    charge(ledger)
    leakage = paid(ledger, "index", "value")
    leakage.check("index", "public", (1,))
    with pytest.raises(LeakageError, match="H306"):
        leakage.check("value", "public", (1,))
    charge(ledger)
    leakage.check("value", "public", (1,))


def test_a_charge_is_used_up_for_every_record_on_the_ledger() -> None:
    ledger = Ledger()
    charge(ledger)
    paid(ledger, "index").check("index", "public", (1,))
    with pytest.raises(LeakageError, match="H306"):
        paid(ledger, "index").check("index", "public", (1,))
    again = Ledger.from_json(ledger.to_json())
    with pytest.raises(LeakageError, match="H306"):
        paid(again, "index").check("index", "public", (1,))


def test_a_record_without_its_ledger_opens_nothing_more() -> None:
    ledger = Ledger()
    charge(ledger)
    leakage = paid(ledger, "index")
    with pytest.raises(LeakageError, match="H306"):
        Leakage.from_json(leakage.to_json()).check("index", "public", (1,))
    leakage.check("index", "public", (1,))
    same = Leakage.from_json(leakage.to_json(), ledger=ledger)
    with pytest.raises(LeakageError, match="H306"):
        same.check("index", "public", (1,))
    charge(ledger)
    same.check("index", "public", (1,))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 9},
        {"openings": [{"name": "n"}]},
        {"openings": 3},
        {"record": [{"name": "splits", "to": "public"}]},
        {"record": [{"name": "splits", "to": "public", "times": 0}]},
        {"record": [{"name": "splits", "to": "public", "times": "1"}]},
        {"record": [{"name": "splits", "to": "public", "times": True}]},
        {"record": [{"name": "splits", "to": "public", "times": 1.0}]},
        {"record": [{"name": "splits", "to": "public", "times": 10**400}]},
        {"record": [{"name": ["splits"], "to": "public", "times": 1}]},
    ],
)
def test_damaged_files_are_refused(change: dict[str, object]) -> None:
    data = json.loads(Leakage(DECLARED, **PUBLIC).to_json())
    with pytest.raises(FormatError, match="H211"):
        Leakage.from_json(json.dumps({**data, **change}))


@pytest.mark.parametrize(("name", "code"), [("other", "H301"), ("masked", "H302")])
def test_a_record_that_breaks_its_declaration_is_refused(name: str, code: str) -> None:
    data = json.loads(Leakage(DECLARED, **PUBLIC).to_json())
    data["record"] = [{"name": name, "to": "public", "times": 1}]
    with pytest.raises(LeakageError, match=code):
        Leakage.from_json(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema":' * 100_000,
        Leakage(DECLARED, **PUBLIC).to_json().replace('"times": 2', '"times": 9, "times": 2'),
    ],
    ids=["deep list", "deep object", "repeated key"],
)
def test_odd_json_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="H211"):
        Leakage.from_json(text)


def test_a_line_of_a_record_is_checked_in_one_step_however_often_it_counts() -> None:
    often = 10**12
    leakage = Leakage([Opening("c", "owner", (2,), independent="x", times=often + 1)])
    data = json.loads(leakage.to_json())
    data["record"] = [{"name": "c", "to": "owner 1", "times": often}]
    again = Leakage.from_json(json.dumps(data))
    assert again.compare()[0]["opened"] == often
    assert again.what_was_learned("owner 1")[0]["values"] == 2 * often
    again.check("c", "owner 2", (2,))
    with pytest.raises(LeakageError, match="H304"):
        again.check("c", "owner 2", (2,))
    data["record"] += [{"name": "c", "to": "owner 2", "times": 2}]
    with pytest.raises(LeakageError, match="H304"):
        Leakage.from_json(json.dumps(data))


def test_recording_from_many_threads_loses_nothing() -> None:
    leakage = Leakage([Opening("c", "public", (), independent="x", times=150)])

    def attempt(_: int) -> bool:
        try:
            leakage.check("c", "public", ())
        except LeakageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(200))) == 150
    assert copy.deepcopy(leakage).compare()[0]["opened"] == 150


def test_copies_of_a_record_say_the_same_and_open_nothing_that_has_to_be_marked() -> None:
    marked: list[str] = []
    ledger = Ledger()
    ledger.charge(release(reason="r", audience="public"), release(reason="r", audience="public"))
    opening = Opening("c", "public", (), release="r", times=2)
    leakage = Leakage([opening], ledger=ledger, mark=lambda name: marked.append(name))
    leakage.check("c", "public", ())
    again = pickle.loads(pickle.dumps(leakage))
    assert again.compare() == leakage.compare()
    with pytest.raises(LeakageError) as caught:
        again.check("c", "public", ())
    assert caught.value.code is Code.OPENING_NOT_KEPT
    leakage.check("c", "public", ())
    assert marked == ["c", "c"]


def test_a_derived_value_needs_its_charges_and_uses_none_up() -> None:
    ledger = Ledger()
    answer = Opening("answer", "analyst", (3,), derived=("split", "leaf"), times=2)
    leakage = Leakage([answer], ledger=ledger)
    ledger.charge(release(reason="split", audience="analyst"))
    with pytest.raises(LeakageError) as caught:
        leakage.check("answer", "analyst", (3,))
    assert caught.value.code is Code.NOT_CHARGED
    assert "'leaf'" in str(caught.value)
    ledger.charge(release(reason="leaf", audience="analyst"))
    leakage.check("answer", "analyst", (3,))
    leakage.check("answer", "analyst", (3,))
    assert ledger.taken("split", "analyst") == 0
    assert leakage.what_was_learned("analyst")[0]["why"] == "computed from: split; leaf"
    with pytest.raises(LeakageError) as caught:
        Leakage.from_json(leakage.to_json(), ledger).check("answer", "analyst", (3,))
    assert caught.value.code is Code.TOO_MANY_OPENINGS


@pytest.mark.parametrize("why", [{"release": "split"}, {"derived": ("split",)}])
def test_what_was_to_be_paid_for_is_refused_without_a_ledger(why: dict[str, Any]) -> None:
    marked: list[str] = []
    leakage = Leakage([Opening("answer", "analyst", (), **why)], mark=marked.append)
    with pytest.raises(LeakageError) as caught:
        leakage.check("answer", "analyst", ())
    assert caught.value.code is Code.NOT_CHARGED
    assert leakage.what_was_learned("analyst") == []
    assert marked == []


def test_openings_that_depend_on_data_are_marked_before_they_are_recorded() -> None:
    marked: list[str] = []
    leakage = Leakage(DECLARED, ledger=charged_twice(), mark=marked.append, **PUBLIC)
    leakage.check("splits", "public", (4,))
    leakage.check("masked", "server 1", (2, 10))
    assert marked == ["splits"]

    def full(name: str) -> None:
        raise Code.STATE_NOT_WRITTEN.error(found=name)

    unmarked = Leakage(DECLARED, ledger=charged_twice(), mark=full, **PUBLIC)
    with pytest.raises(HedgerowError) as caught:
        unmarked.check("splits", "public", (4,))
    assert caught.value.code is Code.STATE_NOT_WRITTEN
    assert unmarked.what_was_learned("public") == []


@pytest.mark.parametrize("derived", [(), ("",), "split", (1,)])
def test_reasons_of_a_derived_value(derived: object) -> None:
    with pytest.raises(LeakageError) as caught:
        Opening("answer", "analyst", (), derived=derived)
    assert caught.value.code is Code.BAD_DECLARATION


def test_a_record_is_shown_in_a_line() -> None:
    leakage = Leakage(DECLARED, **PUBLIC)
    assert repr(leakage) == "<Leakage: 3 names, 0 of 6 openings made>"
    leakage.check("masked", "server 1", (2, 10))
    assert repr(leakage) == "<Leakage: 3 names, 1 of 6 openings made>"
