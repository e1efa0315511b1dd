"""``hedgerow papers``: the papers behind the code, by the keys that docstrings name."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.completion import complete_paper
from hedgerow.cli.printing import Format, FormatOption, print_line, print_table
from hedgerow.errors import Code

_ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.M)
# As BibTeX writes them in this file; braces that keep capitals go.
_LETTERS = {
    r"{\'e}": "é",
    r"{\'\i}": "í",
    r"{\'i}": "í",
    r"{\'U}": "Ú",
    r"{\aa}": "å",
    "--": "–",
    "{": "",
    "}": "",
}
_PLACES = ("journal", "booktitle", "publisher", "note")


class Paper(NamedTuple):
    """An entry of ``references.bib``, and where the package names it.

    `estimators`: classes that say they are after it. `modules`: all files that name it.
    """

    key: str
    authors: tuple[str, ...]
    title: str
    year: str
    where: str
    estimators: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def line(self) -> str:
        """Who wrote it, by last names, and its title."""
        names = [author.split(",")[0] for author in self.authors]
        return f"{', '.join(names)}: {self.title}" if names else self.title

    @property
    def citation(self) -> str:
        """The line, and where and when it appeared."""
        return f"{self.line}. {', '.join(part for part in (self.where, self.year) if part)}"

    @property
    def rooms(self) -> tuple[str, ...]:
        """Folders of the package that name it, a protocol's or a file at most two names deep.

        What the package does not name, the reproductions do, which compare it with others.
        """
        inner = (one.split(".")[1:3] for one in self.modules if ".estimators." not in one)
        rooms = dict.fromkeys("/".join(parts) for parts in inner)
        return tuple(rooms) if self.modules else ("reproductions alone",)


def known_papers() -> list[Paper]:
    """Return all entries in their order, with the places in the sources that name them."""
    text = (files("hedgerow") / "references.bib").read_text(encoding="utf-8")
    entries = {key: dict(_FIELD.findall(body)) for key, body in _ENTRY.findall(text)}
    estimators, modules = _places(entries)
    return [
        Paper(
            key,
            tuple(_plain(fields["author"]).split(" and ")) if "author" in fields else (),
            _plain(fields["title"]),
            fields.get("year", ""),
            next((_plain(fields[name]) for name in _PLACES if name in fields), ""),
            tuple(sorted(estimators[key])),
            tuple(sorted(modules[key])),
        )
        for key, fields in entries.items()
    ]


def papers(
    word: Annotated[
        str | None,
        typer.Argument(
            help="of a key, author, title, estimator or folder", autocompletion=complete_paper
        ),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """List the papers behind the code, and which estimators and protocols are after them.

    Docstrings name the same keys, with the algorithm or section.
    """
    found = [one for one in known_papers() if word is None or word.lower() in _text_of(one)]
    if not found:
        raise Code.BAD_PARAMETER.error(
            expected="a word of a paper that the code is after, such as boosting",
            found=repr(word),
            fix="`hedgerow papers` lists all of them",
        )
    if format is Format.json:
        rows = [{**one._asdict(), "rooms": one.rooms} for one in found]
        print(json.dumps({"ok": True, "rows": rows}))
    elif len(found) == 1:
        _print(found[0])
    else:
        table = Table("key", "year", "authors and title", "in", show_lines=True)
        for one in found:
            used = "\n".join((*one.estimators, *one.rooms))
            table.add_row(one.key, one.year, escape(one.line), escape(used))
        print_table(table)


def _print(one: Paper) -> None:
    print_line(f"{one.key}: {one.title}")
    print_line(f"  by: {'; '.join(one.authors) or 'not named'}")
    print_line(f"  in: {', '.join(part for part in (one.where, one.year) if part)}")
    if one.estimators:
        print_line(f"  estimators: {', '.join(one.estimators)}")
    print_line("\n".join(["  modules:", *(f"    {name}" for name in one.modules or one.rooms)]))


def _text_of(one: Paper) -> str:
    return " ".join((one.key, *one.authors, one.title, *one.estimators, *one.modules)).lower()


def _plain(text: str) -> str:
    for written, letter in _LETTERS.items():
        text = text.replace(written, letter)
    return text


def _places(keys: Mapping[str, object]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return which estimators, and which modules, name each key."""
    named = re.compile(rf"\b({'|'.join(keys)})\b")
    estimators: dict[str, set[str]] = defaultdict(set)
    modules: dict[str, set[str]] = defaultdict(set)
    root = Path(str(files("hedgerow")))
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not named.search(text):
            continue
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        for key in named.findall(text):
            modules[key].add(".".join(parts))
        if parts[1] == "estimators":
            for name, said in _class_texts(text):
                for key in named.findall(said):
                    estimators[key].add(name)
    return estimators, modules


def _class_texts(text: str) -> Iterator[tuple[str, str]]:
    """Yield each public class of a source with its docstring."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, ast.get_docstring(node) or ""
