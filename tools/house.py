"""Measure the house, check its rules, and draw its rooms, all from the source text.

``python tools/house.py`` prints the figures; ``check`` fails where a rule is broken and says where,
``check --rules unused,cycles`` looks at some rules alone; ``picture FILE`` draws which room uses
which, as SVG.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
# What may use a part of the package without a test: the package itself, its pages, and these.
USERS = ("examples", "bench", "reproduce")
MOST_FILES = 20
# Modules that something else than an import starts.
STARTED = {"cli.main", "cli.__main__", "parties.runs.worker"}
# Names, as shells match them, that only tests have to say, and why they are there all the same.
ALLOWED = {
    "decision_function": "scikit-learn asks classifiers for it: scores, calibration, ROC curves",
    "predict_log_proba": "part of what scikit-learn calls a classifier",
    "get_n_leaves": "as scikit-learn's trees have it",
    "handle_error": "aiohttp asks it what to say to bytes that are no request",
    "log_exception": "aiohttp tells it of connections that end",
    "cost_*": "each primitive declares its rounds and bytes; tests compare them with the meter",
}


@dataclass
class Module:
    """One file of the package."""

    name: str
    path: Path
    text: str
    is_package: bool
    imports: set[str] = field(default_factory=set)
    # Imports that do not run when the module is loaded: in functions, or for type checkers alone.
    hidden: set[str] = field(default_factory=set)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)


class House:
    """All modules of the package, and what they import of each other."""

    def __init__(self, root: Path = ROOT, package: str = "hedgerow") -> None:
        self.root, self.package = root, package
        self.source = source = root / "src" / package
        self.modules: dict[str, Module] = {}
        for path in sorted(source.rglob("*.py")):
            parts = [source.name, *path.relative_to(source).with_suffix("").parts]
            package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if package else parts)
            self.modules[name] = Module(name, path, path.read_text(), package)
        for module in self.modules.values():
            self._read_imports(module, module.tree, hidden=False)

    def _read_imports(self, module: Module, node: ast.AST, *, hidden: bool) -> None:
        for child in ast.iter_child_nodes(node):
            found: list[str] = []
            if isinstance(child, ast.Import):
                found = [alias.name for alias in child.names]
            elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
                found = [f"{child.module}.{alias.name}" for alias in child.names]
            for name in found:
                target = name if name in self.modules else name.rpartition(".")[0]
                if target in self.modules and target != module.name:
                    (module.hidden if hidden else module.imports).add(target)
            inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            self._read_imports(module, child, hidden=hidden or inner or typing)

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Who imports each module, openly or not."""
        found: dict[str, set[str]] = {name: set() for name in self.modules}
        for module in self.modules.values():
            for target in module.imports | module.hidden:
                found[target].add(module.name)
        return found

    def with_one_importer(self) -> list[str]:
        """List modules that one other module imports."""
        return sorted(
            name
            for name, users in self.importers.items()
            if len(users) == 1 and not self.modules[name].is_package
        )

    def unused_modules(self) -> list[str]:
        """List modules that nothing but tests would miss: no import, and no name in a text."""
        texts = [module.text for module in self.modules.values()]
        return sorted(
            name
            for name, users in self.importers.items()
            if not users
            and name.partition(".")[2] not in STARTED
            and not self.modules[name].is_package
            and not any(f'"{name}"' in text or f'"{name}:' in text for text in texts)
        )

    def unused_names(self) -> list[str]:
        """List functions, classes and methods whose names occur nowhere but where they are made.

        Nothing but tests can use those. A name that something else has as well is not found.
        """
        used: Counter[str] = Counter()
        trees = [module.tree for module in self.modules.values()]
        for folder in USERS:
            trees += [ast.parse(path.read_text()) for path in (self.root / folder).rglob("*.py")]
        for path in [*self.root.glob("README.md"), *(self.root / "docs").rglob("*.md")]:
            used.update(re.findall(r"\w+", path.read_text()))
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    used[node.id] += 1
                elif isinstance(node, ast.Attribute):
                    used[node.attr] += 1
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    used.update(node.value.replace(":", ".").split(".")[-1:])
                    # The text of a program for another process.
                    used.update(re.findall(r"\bimport (\w+)", node.value))
        found = []
        for module in self.modules.values():
            for owner, node in _definitions(module.tree):
                named = not node.name.startswith("__") and not _is_called_by_name(node)
                allowed = any(fnmatch(node.name, pattern) for pattern in ALLOWED)
                if named and not allowed and not used[node.name]:
                    found.append(f"{module.name}: {owner}{node.name}")
        return sorted(found)

    def classes_named_twice(self) -> dict[str, list[str]]:
        """Return class names that more than one module has, private ones aside."""
        where = defaultdict(list)
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    where[node.name].append(module.name)
        return {name: places for name, places in sorted(where.items()) if len(places) > 1}

    def cycles(self, *, hidden: bool = True) -> list[list[str]]:
        """Return groups of modules that import each other, with what hides it or without."""
        edges = {
            name: module.imports | (module.hidden if hidden else set())
            for name, module in self.modules.items()
            if name != self.package
        }
        return [sorted(group) for group in _components(edges) if len(group) > 1]

    def folders(self) -> dict[str, int]:
        """Count the files of each folder, its ``__init__`` aside."""
        files = Counter(
            module.path.parent.relative_to(self.source).as_posix()
            for module in self.modules.values()
            if not module.is_package
        )
        return dict(sorted(files.items()))

    def lines(self) -> dict[str, int]:
        """Count lines of code, of docstrings, of comments alone and without anything."""
        counts = Counter({"code": 0, "docstring": 0, "comment": 0, "blank": 0})
        for module in self.modules.values():
            strings = {line for node in _docstrings(module.tree) for line in _lines_of(node)}
            comments = {
                token.start[0]
                for token in tokenize.generate_tokens(io.StringIO(module.text).readline)
                if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
            }
            for number, line in enumerate(module.text.splitlines(), start=1):
                if number in strings:
                    counts["docstring"] += 1
                elif not line.strip():
                    counts["blank"] += 1
                else:
                    counts["comment" if number in comments else "code"] += 1
        return dict(counts)

    def rooms(self) -> dict[str, set[str]]:
        """Return which rooms each room uses, also where an import waits for its first use."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            if module.name == self.package:
                continue
            here = module.name.split(".")[1]
            used = module.imports | module.hidden
            found[here] |= {target.split(".")[1] for target in used if "." in target} - {here}
        return dict(found)


def _definitions(
    tree: ast.Module,
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield "", node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.", inner


def _is_called_by_name(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Tell whether a decorator hands the function to somebody: a verb, a validator, a target."""
    kept = {"property", "cached_property", "staticmethod", "classmethod", "dataclass", "njit"}
    names = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
    return any(name.split(".")[-1] not in kept for name in names)


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            yield first


def _lines_of(node: ast.Expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _components(edges: dict[str, set[str]]) -> list[set[str]]:
    """Return strongly connected components, by Tarjan's algorithm without recursion."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []
    for root in edges:
        work = [(root, iter(sorted(edges[root])))] if root not in order else []
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
        while work:
            node, children = work[-1]
            child = next(children, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    group: set[str] = set()
                    while node not in group:
                        group.add(stack.pop())
                    found.append(group)
            elif child in edges and child not in order:
                order[child] = low[child] = len(order)
                stack.append(child)
                work.append((child, iter(sorted(edges[child]))))
            elif child in stack:
                low[node] = min(low[node], order[child])
    return found


def _unused(house: House) -> Iterator[str]:
    for name in (*house.unused_modules(), *house.unused_names()):
        yield f"only tests use {name}: delete it"


def _names(house: House) -> Iterator[str]:
    for name, places in house.classes_named_twice().items():
        yield f"the class name {name} stands in {', '.join(places)}: rename all but one"


def _cycles(house: House) -> Iterator[str]:
    for group in house.cycles():
        yield f"modules import each other: {', '.join(group)}"


def _folders(house: House) -> Iterator[str]:
    for folder, files in house.folders().items():
        if files > MOST_FILES:
            yield f"{folder}/ has {files} files, more than {MOST_FILES}: an idea has no room yet"


RULES = {"unused": _unused, "names": _names, "cycles": _cycles, "folders": _folders}


def broken_rules(house: House, rules: Iterable[str] = RULES) -> list[str]:
    """Return a line for each place where the house is not as it should be."""
    return [line for rule in rules for line in RULES[rule](house)]


def figures(house: House) -> str:
    """Return the figures of the house as text."""
    lines = house.lines()
    total = sum(lines.values())
    parts = ", ".join(f"{name} {count} ({count / total:.0%})" for name, count in lines.items())
    rows = {
        "files": len(house.modules),
        "lines": f"{total}: {parts}",
        "modules with one importer": len(house.with_one_importer()),
        "class names used twice": len(house.classes_named_twice()),
        "groups of modules that import each other": len(house.cycles()),
        "the same without hidden imports": len(house.cycles(hidden=False)),
        "modules that only tests use": len(house.unused_modules()),
        "names that only tests use": len(house.unused_names()),
        "largest folders": ", ".join(
            f"{folder} {files}"
            for folder, files in sorted(house.folders().items(), key=lambda item: -item[1])[:8]
        ),
    }
    return "\n".join(f"{name}: {value}" for name, value in rows.items())


class Place(NamedTuple):
    """Where a room stands in the picture: its row from the top, its middle, and what it is for."""

    row: int
    x: int
    purpose: str


PLACES = {
    "cli": Place(0, 380, "verbs: parse, call, print"),
    "audit": Place(1, 190, "attacks on every guarantee"),
    "estimators": Place(2, 380, "the face of scikit-learn"),
    "reports": Place(3, 380, "pages and pictures for people"),
    "parties": Place(4, 380, "runs between organisations"),
    "protocols": Place(5, 380, "one folder for each paper"),
    "secure": Place(6, 190, "arrays of secret shares"),
    "trees": Place(6, 590, "models, learners over counts"),
    "crypto": Place(7, 190, "generators, ciphers, seals"),
    "privacy": Place(7, 400, "mechanisms, ledger, leakage"),
    "tables": Place(7, 650, "domains, reading, encoding"),
    "net": Place(8, 190, "channels, TLS, meter"),
    "charts": Place(8, 650, "panels, as SVG or on axes"),
}
_WIDTH, _HEIGHT, _PITCH, _MARGIN = 200, 48, 84, 24
_STYLE = """
.rooms text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;
text-anchor:middle}
.rooms .name{font-size:15px;font-weight:600}
.rooms .small{font-size:11px}
.rooms .line{fill:none;stroke-width:1.5px}
.rooms .page{fill:#ffffff}.rooms .box{fill:#f8fafc;stroke:#94a3b8}.rooms .line{stroke:#94a3b8}
.rooms .tip{fill:#94a3b8}.rooms .name{fill:#0f172a}.rooms .small{fill:#475569}
@media (prefers-color-scheme:dark){
.rooms .page{fill:#0f172a}.rooms .box{fill:#1e293b;stroke:#64748b}.rooms .line{stroke:#64748b}
.rooms .tip{fill:#64748b}.rooms .name{fill:#f1f5f9}.rooms .small{fill:#b6c2d2}}
"""


def shortest_uses(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out what a room uses through another one as well; uses must have no cycle."""
    below: dict[str, set[str]] = {}

    def reach(room: str) -> set[str]:
        if room not in below:
            below[room] = set().union(*({other} | reach(other) for other in uses.get(room, ())))
        return below[room]

    return {
        room: {one for one in used if not any(one in reach(other) for other in used - {one})}
        for room, used in uses.items()
    }


def picture(house: House) -> str:
    """Draw the rooms and what they use, top to bottom; modules of no room are a strip below."""
    uses = house.rooms()
    shared = sorted(name for name in uses if (house.source / f"{name}.py").exists())
    rooms = {name: used - set(shared) for name, used in uses.items() if name not in shared}
    if missing := rooms.keys() - PLACES.keys():
        raise SystemExit(f"no place in the picture for: {', '.join(sorted(missing))}")
    rows = max(PLACES[name].row for name in rooms)
    right = max(PLACES[name].x for name in rooms) + _WIDTH // 2 + _MARGIN
    strip = _MARGIN + (rows + 1) * _PITCH
    bottom = strip + _HEIGHT + _MARGIN
    lines, boxes = [], []
    for name, used in sorted(shortest_uses(rooms).items()):
        lines += [_arrow(PLACES[name], PLACES[other]) for other in sorted(used)]
        boxes.append(_box(PLACES[name].x, _top(PLACES[name]), _WIDTH, name, PLACES[name].purpose))
    wide = right - 2 * _MARGIN
    boxes.append(_box(right // 2, strip, wide, "used by every room", ", ".join(shared)))
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="rooms" role="img" '
            f'viewBox="0 0 {right} {bottom}" width="{right}" height="{bottom}">',
            f"<title>The rooms of {escape(house.package)}, and which uses which</title>",
            "<desc>An arrow leads from a room to one that it uses; what it uses through another "
            "room as well has no arrow of its own.</desc>",
            f"<style>{_STYLE}</style>",
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8Z"/></marker>',
            f'<rect class="page" width="{right}" height="{bottom}"/>',
            *lines,
            *boxes,
            "</svg>\n",
        ]
    )


def _top(place: Place) -> int:
    return _MARGIN + place.row * _PITCH


def _arrow(start: Place, end: Place) -> str:
    y0, y1 = _top(start) + _HEIGHT, _top(end) - 2
    bend = (y0 + y1) // 2
    return (
        f'<path class="line" marker-end="url(#tip)" '
        f'd="M{start.x} {y0}C{start.x} {bend} {end.x} {bend} {end.x} {y1}"/>'
    )


def _box(x: int, y: int, width: int, name: str, small: str) -> str:
    return (
        f'<rect class="box" x="{x - width // 2}" y="{y}" width="{width}" height="{_HEIGHT}" '
        f'rx="6"/><text class="name" x="{x}" y="{y + 20}">{escape(name)}</text>'
        f'<text class="small" x="{x}" y="{y + 37}">{escape(small)}</text>'
    )


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python tools/house.py", description=__doc__)
    verbs = parser.add_subparsers(dest="verb")
    check = verbs.add_parser("check", help="fail where a rule is broken")
    check.add_argument("--rules", default=",".join(RULES), help="some of the rules, with commas")
    drawn = verbs.add_parser("picture", help="draw the rooms")
    drawn.add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    rules = given.rules.split(",") if given.verb == "check" else []
    if unknown := set(rules) - RULES.keys():
        parser.error(f"no such rule: {', '.join(sorted(unknown))}")
    house = House()
    if given.verb == "check":
        found = broken_rules(house, rules)
        print("\n".join(found) or "the house keeps its rules")
        return bool(found)
    if given.verb == "picture":
        given.file.write_text(picture(house))
        return 0
    print(figures(house))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
