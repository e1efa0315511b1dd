"""Measure the house, check its rules, and draw its rooms, all from the source text.

``python tools/house.py`` prints the figures, ``python tools/house.py check`` fails where a rule is
broken and says where, ``python tools/house.py picture FILE`` draws which room uses which.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hedgerow"
# What may use a part of the package without a test: the package itself, its pages, and these.
USERS = ("examples", "bench", "reproduce")
MOST_FILES = 20
# Modules that something else than an import starts.
STARTED = {"hedgerow", "hedgerow.cli.main", "hedgerow.cli.__main__", "hedgerow.parties.runs.worker"}


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

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
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
            and name not in STARTED
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
            trees += [ast.parse(path.read_text()) for path in (ROOT / folder).rglob("*.py")]
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
            used.update(re.findall(r"\w+", path.read_text()))
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    used[node.id] += 1
                elif isinstance(node, ast.Attribute):
                    used[node.attr] += 1
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    used.update(node.value.replace(":", ".").split(".")[-1:])
        found = []
        for module in self.modules.values():
            for owner, node in _definitions(module.tree):
                named = not node.name.startswith("__") and not _is_called_by_name(node)
                if named and not used[node.name]:
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
            if name != "hedgerow"
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
        """Return which rooms each room uses."""
        found: dict[str, set[str]] = defaultdict(set)
        for module in self.modules.values():
            if module.name == "hedgerow":
                continue
            here = module.name.split(".")[1]
            there = {target.split(".")[1] for target in module.imports if "." in target}
            found[here] |= there - {here}
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


def broken_rules(house: House) -> list[str]:
    """Return a line for each place where the house is not as it should be."""
    found = [f"only tests use {name}: delete it" for name in house.unused_modules()]
    found += [f"only tests use {name}: delete it" for name in house.unused_names()]
    found += [
        f"the class name {name} stands in {', '.join(places)}: rename all but one"
        for name, places in house.classes_named_twice().items()
    ]
    found += [f"modules import each other: {', '.join(group)}" for group in house.cycles()]
    found += [
        f"{folder}/ has {files} files, more than {MOST_FILES}: an idea in it has no room yet"
        for folder, files in house.folders().items()
        if files > MOST_FILES
    ]
    return found


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


def main(arguments: list[str]) -> int:
    """Do what the arguments say; return the exit status."""
    house = House()
    if arguments[:1] == ["check"]:
        found = broken_rules(house)
        print("\n".join(found) or "the house keeps its rules")
        return bool(found)
    print(figures(house))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
