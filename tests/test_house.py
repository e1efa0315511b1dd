"""The rules of the house: what breaks them is found, in packages made up for it."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.test_import_graph import ROOMS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import house as rules  # noqa: E402

PICTURE = ROOT / "docs" / "explanation" / "rooms.svg"


def house_of(root: Path, files: dict[str, str]) -> rules.House:
    """Write a package ``garden`` and look at it; keys are paths from the root of the project."""
    for name, text in ({"src/garden/__init__.py": ""} | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return rules.House(root, "garden")


def broken(root: Path, rule: str, files: dict[str, str]) -> list[str]:
    return rules.broken_rules(house_of(root, files), [rule])


@pytest.mark.parametrize(
    "hidden",
    [
        "def dig():\n    from garden.spade import SPADE\n    return SPADE",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from garden.spade import SPADE",
        "import garden.spade",
    ],
    ids=["in a function", "for type checkers", "open"],
)
def test_a_cycle_is_found_however_it_is_hidden(tmp_path: Path, hidden: str) -> None:
    files = {"src/garden/bed.py": hidden, "src/garden/spade.py": "import garden.bed\nSPADE = 1"}
    assert broken(tmp_path, "cycles", files) == [
        "modules import each other: garden.bed, garden.spade"
    ]
    open_ones = rules.House(tmp_path, "garden").cycles(hidden=False)
    assert open_ones == ([["garden.bed", "garden.spade"]] if hidden.startswith("import") else [])


def test_imports_downwards_are_no_cycle(tmp_path: Path) -> None:
    files = {"src/garden/bed.py": "import garden.spade", "src/garden/spade.py": "import json"}
    assert broken(tmp_path, "cycles", files) == []


def test_a_class_name_in_two_modules_is_found(tmp_path: Path) -> None:
    files = {
        "src/garden/bed.py": "class Plant: ...\nclass _Own: ...",
        "src/garden/pot.py": "class Plant: ...\nclass _Own: ...\nclass Pot:\n    class Plant: ...",
    }
    assert broken(tmp_path, "names", files) == [
        "the class name Plant stands in garden.bed, garden.pot: rename all but one"
    ]


def test_what_only_tests_use_is_found(tmp_path: Path) -> None:
    files = {
        "src/garden/bed.py": "from garden.pot import plant\nplant()",
        "src/garden/pot.py": "def plant(): ...\ndef water(): ...",
        "src/garden/cli/main.py": "import garden.bed",
        "src/garden/shed.py": "ROOF = 1",
        "tests/test_shed.py": "from garden.pot import water\nfrom garden.shed import ROOF",
    }
    assert broken(tmp_path, "unused", files) == [
        "only tests use garden.shed: delete it",
        "only tests use garden.pot: water: delete it",
    ]


@pytest.mark.parametrize(
    "user",
    [
        {"examples/spring.py": "from garden.pot import Pot\nPot().water()"},
        {"bench/rain.py": "water = 1\nprint(water)"},
        {"docs/spring.md": "Then call `water`."},
        {"examples/start.py": 'HANDLER = "garden.pot:water"'},
        {"examples/start.py": 'PROGRAM = "from garden.pot import water; water()"'},
    ],
    ids=["example", "benchmark", "page", "by its name in a text", "program in a text"],
)
def test_what_something_else_uses_is_not(tmp_path: Path, user: dict[str, str]) -> None:
    files = {
        "src/garden/cli/main.py": "import garden.pot\ngarden.pot.Pot",
        "src/garden/pot.py": "class Pot:\n    def water(self): ...",
    }
    assert broken(tmp_path, "unused", files)
    assert broken(tmp_path, "unused", files | user) == []


def test_what_others_call_needs_no_user_here(tmp_path: Path) -> None:
    methods = "".join(f"    def {name.replace('*', 'x')}(self): ...\n" for name in rules.ALLOWED)
    files = {
        "src/garden/cli/main.py": "import garden.pot\ngarden.pot.Pot",
        "src/garden/pot.py": f"class Pot:\n{methods}    @check\n    def handed_over(self): ...\n",
    }
    assert broken(tmp_path, "unused", files) == []


def test_a_folder_with_too_many_files_is_found(tmp_path: Path) -> None:
    files = {f"src/garden/bed/row_{n}.py": "" for n in range(rules.MOST_FILES)}
    assert broken(tmp_path, "folders", files | {"src/garden/bed/__init__.py": ""}) == []
    (line,) = broken(tmp_path, "folders", {"src/garden/bed/one_more.py": ""})
    assert line.startswith(f"bed/ has {rules.MOST_FILES + 1} files")


def test_lines_are_told_apart(tmp_path: Path) -> None:
    text = (
        '"""Beds,\nand rows."""\n\n# Why.\nROWS = 3  # not a line of its own\nSONG = """\n\n"""\n'
    )
    house = house_of(tmp_path, {"src/garden/bed.py": text})
    assert house.lines() == {"code": 3, "docstring": 2, "comment": 1, "blank": 2}


def test_a_rule_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit):
        rules.main(["check", "--rules", "colour"])


def test_arrows_that_follow_from_others_are_left_out() -> None:
    uses = {"a": {"b", "c", "d"}, "b": {"c"}, "c": set(), "d": set()}
    assert rules.shortest_uses(uses) == {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": set()}


def test_the_picture_is_up_to_date() -> None:
    same = PICTURE.read_text() == rules.picture(rules.House())
    assert same, "the rooms use each other in another way: make docs"


def test_the_picture_has_every_room_from_top_to_bottom() -> None:
    svg = "{http://www.w3.org/2000/svg}"
    root = ElementTree.fromstring(PICTURE.read_text())
    boxes = [rect for rect in root.iter(f"{svg}rect") if rect.get("class") == "box"]
    names = [text.text for text in root.iter(f"{svg}text") if text.get("class") == "name"]
    top = dict(zip(names, (int(box.get("y", "")) for box in boxes), strict=True))
    drawn = {name for name in ROOMS if (ROOT / "src" / "hedgerow" / name).is_dir()}
    assert drawn == set(rules.PLACES) == set(names) - {"used by every room"}
    for path in (path for path in root.iter(f"{svg}path") if path.get("class") == "line"):
        start, end = path.get("d", "").removeprefix("M").split("C")
        assert int(start.split()[1]) < int(end.split()[-1])
    assert max(top, key=lambda name: top[name]) == "used by every room"
    spans = [(top[name], rules.PLACES[name].x) for name in drawn]
    for row, x in spans:
        near = [other for y, other in spans if y == row and other != x]
        assert all(abs(x - other) > rules._WIDTH for other in near), "boxes overlap"
