"""Dependencies between rooms point downwards only."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "hedgerow"
# Top to bottom; a room may import itself and the rooms after it.
ROOMS = [
    "cli",
    "estimators",
    "reports",
    "parties",
    "protocols",
    "trees",
    "secure",
    "crypto",
    "net",
    "privacy",
    "tables",
    "threads",
    "errors",
]


def room_of(parts: tuple[str, ...]) -> str | None:
    """Room of a module path below the package; the package itself has none."""
    return parts[0] if parts else None


def imported_rooms(source: str, package: tuple[str, ...]) -> set[tuple[str, int]]:
    """Rooms a module imports, with line numbers; `package` is the module's own package path."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["hedgerow", *package][: len(package) + 2 - node.level] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            head, *rest = name.split(".")
            if head == "hedgerow" and rest and rest[0] in ROOMS:
                found.add((rest[0], node.lineno))
    return found


def violations(source: str, parts: tuple[str, ...]) -> list[str]:
    room = room_of(parts)
    if room is None:
        return []
    allowed = ROOMS[ROOMS.index(room) :]
    return [
        f"{'/'.join(parts)}:{line} imports {other}"
        for other, line in sorted(imported_rooms(source, parts[:-1]))
        if other not in allowed
    ]


def modules() -> list[tuple[Path, tuple[str, ...]]]:
    return [
        (path, path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.parent != SOURCE or path.stem in ROOMS
    ]


@pytest.mark.parametrize(("path", "parts"), modules(), ids=lambda v: getattr(v, "name", None))
def test_dependencies_point_downwards(path: Path, parts: tuple[str, ...]) -> None:
    assert parts[0] in ROOMS, f"{path} is in no room: add the room to the map in docs/ first"
    assert violations(path.read_text(), parts) == []


@pytest.mark.parametrize(
    "line",
    [
        "import hedgerow.trees.tree",
        "from hedgerow.estimators import cart",
        "from hedgerow import trees",
        "from .. import trees",
        "from ..trees import tree",
        "def f():\n    from hedgerow.cli import main",
    ],
)
def test_an_upward_import_is_caught(line: str) -> None:
    assert violations(line, ("privacy", "ledger")) != []
