"""Rows, plain-text tables and checked JSON."""

import json
import math

import pytest

from hedgerow.errors import FormatError
from hedgerow.jsonfile import plain
from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.scopes import EACH, ROOT, part
from hedgerow.privacy.statement import (
    columns,
    fold_roles,
    read_count,
    read_object,
    row,
    summary_row,
    text,
)
from tests.privacy.release_strategies import NODES, release


def test_columns_are_aligned_and_empty_ones_left_out() -> None:
    rows = [
        {"name": "a", "epsilon": 0.1 + 0.2, "why": "", "claimed": None},
        {"name": "longer", "epsilon": math.inf, "why": "", "claimed": None},
    ]
    assert columns(rows) == "name    epsilon\na       0.3\nlonger  inf"
    assert columns([]) == ""


def test_rows_hold_plain_text() -> None:
    line = row(release(scope=ROOT / part(NODES, EACH)))
    assert line["scope"] == "nodes: each"
    assert line["epsilon"] == 1.0
    assert summary_row("public", Guarantee(math.inf, 0.0, why="seeded"), 1.0)["private"] == "no"


def test_equal_entries_are_one_line() -> None:
    table = [{"kind": "charge", **row(release(scope=ROOT / part(NODES, i)))} for i in range(40)]
    table += [{"kind": "charge", **row(release(2.0, times=3))}]
    lines = text([], table).splitlines()
    assert len(lines) == 3
    assert [line.split()[-1] for line in lines] == ["times", "40", "3"]


def test_infinity_becomes_text() -> None:
    assert plain(math.inf) == "inf"
    assert plain(1.5) == 1.5


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": "s", "version": 2, "x": 1}',
        '{"schema": "s", "version": "1", "x": 1}',
        '{"schema": "t", "version": 1, "x": 1}',
        '{"schema": "s", "version": 1}',
        '{"schema": "s", "version": 1, "x": 1, "y": 2}',
        '{"schema": "s", "version": 1, "x": NaN}',
        '{"schema": "s", "version": 1, "x": Infinity}',
        '{"schema": "s", "version": true, "x": 1}',
        '{"schema": "s", "version": 1, "x": 1, "x": 1}',
        '{"schema": "s", "version": 1, "x": ' + str(10**400) + "}",
        "[" * 100_000,
    ],
    ids=lambda text: repr(text[-30:]),
)
def test_other_json_is_refused(damaged: str) -> None:
    with pytest.raises(FormatError, match="H211"):
        read_object(damaged, "s", 1, {"schema", "version", "x"})


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", None])
def test_counts_of_a_file_are_whole_numbers(value: object) -> None:
    assert read_count(0, 0) == 0
    with pytest.raises(FormatError, match="H211"):
        read_count(value, 0)
    with pytest.raises(FormatError, match="H211"):
        read_count(0, 1)


def test_json_of_the_schema_is_read() -> None:
    data = {"schema": "s", "version": 1, "x": [1.5]}
    assert read_object(json.dumps(data), "s", 1, set(data)) == data


def pair_rows(*pairs: str, **changed: object) -> list[dict[str, object]]:
    both = (Relation.ADD_REMOVE, Relation.REPLACE)
    return [
        summary_row(pair, Guarantee(math.inf, 0.0, relation, why="shares"), None) | changed
        for pair in pairs
        for relation in both
    ]


def test_all_pairs_that_are_alike_are_one_row() -> None:
    alone = summary_row("public", Guarantee(0.0, 0.0), None)
    rows = pair_rows("server 0 + server 1", "server 1 + server 2", "server 0 + server 2")
    one, two = fold_roles([alone, *rows])
    assert one == alone
    assert two["audience"] == "any two of server 0, server 1, server 2"
    assert two["relation"] == "add/remove, replace"
    assert (two["epsilon"], two["why"]) == (math.inf, "shares")


def test_pairs_that_are_not_all_or_not_alike_stay_apart() -> None:
    rows = pair_rows("server 0 + server 1", "server 1 + server 2")
    assert fold_roles(rows) == rows
    other = pair_rows("server 0 + server 2", why="something else")
    assert fold_roles([*rows, *other]) == [*rows, *other]
    # Three together are no pair, and alike with nobody.
    all_three = pair_rows("server 0 + server 1 + server 2")
    assert fold_roles(all_three) == all_three


def test_a_release_by_rho_has_no_epsilon_beside_it() -> None:
    gaussian = release(math.inf, mechanism="discrete gaussian", rho=0.125)
    table = [{"kind": "charge", **row(one)} for one in (gaussian, release(0.5))]
    heading, first, second = text([], table).splitlines()
    assert "inf" not in first
    assert "0.125" in first[heading.index("rho") :]
    assert "0.5" in second[heading.index("epsilon") : heading.index("rho")]
    # Without a rho an infinite epsilon is what it is.
    assert "inf" in text([], [{"kind": "charge", **row(release(math.inf, mechanism="exact"))}])


def test_an_accountant_is_no_reason_for_doubt() -> None:
    held = summary_row("public", Guarantee(1.0, 1e-6, why="RDP"), None)
    broken = summary_row("server 0", Guarantee(math.inf, 0.0, why="seeded"), None)
    heading, first, second = text([held, broken], []).splitlines()
    by, why = heading.index("by"), heading.index("why")
    assert first[by:].rstrip() == "RDP"
    assert (second[by:why].strip(), second[why:]) == ("", "seeded")
    assert "why" not in text([held], [])
