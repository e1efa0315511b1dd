"""Dependencies between rooms point downwards only."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "hedgerow"
# Top to bottom; a room may import itself and the rooms after it.
ROOMS = [
    "cli",
    "audit",
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
    "charts",
    "numbered",
    "compiled",
    "threads",
    "options",
    "jsonfile",
    "errors",
]
# What the package itself has to give; everything else there comes from a room.
OWN = {"__version__"}


def imported_rooms(source: str, package: tuple[str, ...]) -> set[tuple[str, int]]:
    """Rooms a module imports, with line numbers; `package` is the module's own package path."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["hedgerow", *package][: len(package) + 2 - node.level] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from hedgerow import x` takes x alone; anywhere else the first name is the room.
            taken = [f"{stem}.{alias.name}" for alias in node.names]
            names = taken if stem == "hedgerow" else [stem]
        else:
            continue
        for name in names:
            head, *rest = name.split(".")
            room = rest[0] if rest else "the whole package"
            if head == "hedgerow" and room not in OWN:
                found.add((room, node.lineno))
    return found


def violations(source: str, parts: tuple[str, ...]) -> list[str]:
    allowed = ROOMS[ROOMS.index(parts[0]) :]
    return [
        f"{'/'.join(parts)}:{line} imports {other}"
        for other, line in sorted(imported_rooms(source, parts[:-1]))
        if other not in allowed
    ]


def modules() -> list[tuple[Path, tuple[str, ...]]]:
    """All modules but the package's own ``__init__``, which names things of many rooms."""
    return [
        (path, path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted(SOURCE.rglob("*.py"))
        if path != SOURCE / "__init__.py"
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
        "def f():\n    from hedgerow.cli.main import main",
        "import hedgerow",
        "from hedgerow import Domain",
        "from hedgerow import *",
        "from hedgerow.attic import trunk",
        "import hedgerow.attic",
        "from ..attic import trunk",
    ],
)
def test_an_upward_or_unknown_import_is_caught(line: str) -> None:
    assert violations(line, ("privacy", "ledger")) != []


@pytest.mark.parametrize(
    "line",
    [
        "import numpy",
        "import hedgerow.tables.domain",
        "from hedgerow import __version__, threads",
        "from hedgerow.privacy import trees",
        "from . import coins",
        "from ..errors import Code",
    ],
)
def test_a_downward_import_is_not(line: str) -> None:
    assert violations(line, ("privacy", "ledger")) == []


def test_modules_at_the_bottom_are_looked_at() -> None:
    names = {parts for _, parts in modules()}
    assert {("cli", "main"), ("compiled",), ("threads",), ("options",), ("errors",)} <= names
    assert violations("from hedgerow.tables import Domain", ("threads",)) != []
