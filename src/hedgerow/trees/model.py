"""Model files: a public model of any type together with the ledger that it was paid from."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.trees import schema
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.forest import Forest
from hedgerow.trees.tree import Tree

Model = Tree | Forest | Boosted


class ModelFile(NamedTuple):
    """What a model file holds.

    `privacy`: the ledger's JSON object as it was written; None if the file makes no statement.
    """

    model: Model
    privacy: dict[str, Any] | None

    def tree(self, number: int) -> Tree:
        """Return one of the model's trees, from 0; H501 where there is none of that number."""
        trees = (self.model,) if isinstance(self.model, Tree) else self.model.trees
        if not 0 <= number < len(trees):
            raise Code.BAD_PARAMETER.error(
                expected=f"a tree from 0 to {len(trees) - 1}", found=f"tree {number}"
            )
        return trees[number]


def model_from_json(text: str | bytes) -> ModelFile:
    """Read a model document of any type; it is checked whole before any of it is used.

    Raises `Code.BAD_MODEL_FILE` or `Code.MODEL_VERSION`.
    """
    document = schema.loads(text)
    readers: dict[str, Callable[[dict[str, Any]], Model]] = {
        "tree": Tree.from_dict,
        "forest": Forest.from_dict,
        "boosted": Boosted.from_dict,
    }
    model = readers[schema.document_type(document)](document)
    return ModelFile(model, document.get("privacy"))


def read_model(path: str | Path) -> ModelFile:
    """Read a model file: written by `write_model`, by an estimator's `to_json`, or by a fit.

    `path`: the file, or a folder that ``hedgerow fit`` made, with a ``model.json`` in it. Returns
    the model, and its ledger as it was written. Raises `Code.NO_MODEL_FILE`,
    `Code.MODEL_FILE_CUT_OFF`, `Code.BAD_MODEL_FILE` or `Code.MODEL_VERSION`.
    """
    file = Path(path)
    # False where nobody may look: reading says why.
    if os.path.isdir(file):
        file /= "model.json"
    try:
        text = file.read_bytes()
    except OSError as error:
        fix = _fix_for_party(Path(path), "report")
        raise Code.NO_MODEL_FILE.error(found=f"{file}: {error.strerror}", fix=fix) from error
    other = _other_kind(text)
    if other is not None:
        raise Code.BAD_MODEL_FILE.error(
            expected=Code.NO_MODEL_FILE.spec.expected,
            found=f"{path}: this is no model file, it looks like {other.noun}",
            fix=other.fix.format(path) or "name the file of a model, such as model.json",
        )
    try:
        return model_from_json(text)
    except HedgerowError as error:
        if _is_cut_off(text, error.__cause__):
            raise Code.MODEL_FILE_CUT_OFF.error(
                found=f"{path}: the file is incomplete, it ends after {len(text):,} bytes"
            ) from error.__cause__
        raise error.code.error(
            expected=error.expected, found=f"{path}: {error.found}", fix=error.fix
        ) from error.__cause__


class _Kind(NamedTuple):
    """What a file seems to be, and what is to be done with one, `{}` standing for its path."""

    noun: str
    fix: str = ""


_BY_BEGINNING = {
    b"PAR1": _Kind("a table (Parquet)"),
    b"ARROW1": _Kind("a table (Arrow)"),
    b"<!doctype html>": _Kind("a page (HTML)", "open it in a browser"),
    b"<svg": _Kind("a picture (SVG)", "open it in a browser"),
}


def _other_kind(text: bytes) -> _Kind | None:
    """Return what a file seems to be that is no model; None of a model, or a part of one."""
    found = text.lstrip()
    if not found.startswith(b"{"):
        return _kind_of_text(found) if found else None
    try:
        data = json.loads(found)
    except (ValueError, RecursionError):
        return None
    schema = data.get("schema")
    if schema == "hedgerow.ledger" and data.get("budget") is not None:
        return _Kind("an account", "`hedgerow account show {}` shows what was spent")
    if schema == "hedgerow.ledger":
        return _Kind("a ledger", "name the model.json beside it; `hedgerow ledger {}` prints it")
    return None


def _kind_of_text(text: bytes) -> _Kind:
    for begin, kind in _BY_BEGINNING.items():
        if text[: len(begin)].lower() == begin.lower():
            return kind
    try:
        lines = text.decode("utf-8")
    except UnicodeDecodeError:
        return _Kind("no text")
    try:
        tomllib.loads(lines)
    except tomllib.TOMLDecodeError:
        first = lines.partition("\n")[0]
        return _Kind("a table (CSV)" if "," in first or ";" in first else "text")
    return _Kind("a domain, a job or a policy (TOML)")


def _fix_for_party(folder: Path, verb: str) -> str | None:
    """Return what to do with the folder of a party where that of a fit was expected."""
    if not os.path.exists(folder / "party.toml"):
        return None
    return (
        f"this is the folder of a party: name a model before it, `hedgerow {verb} MODEL {folder}`"
    )


def _is_cut_off(text: bytes, cause: BaseException | None) -> bool:
    """Whether text that could not be read is the beginning of a JSON object."""
    text = text.strip()
    if not text:
        return True
    if not text.startswith(b"{") or not isinstance(cause, ValueError):
        return False
    # The last brace of a part is not that of the whole: the reader then wants more at the end.
    at_end = isinstance(cause, JSONDecodeError) and cause.pos >= len(cause.doc.rstrip())
    return at_end or not text.endswith(b"}")


def write_model(model: Model, path: str | Path, *, privacy: dict[str, Any] | None = None) -> None:
    """Write a model, and its ledger's JSON object if given, to a UTF-8 JSON file."""
    text = model.to_json(privacy=privacy)
    Path(path).write_bytes(schema.build(lambda: text.encode("utf-8")))


def ledger_text(file: Path) -> str:
    """Return the text of the ledger in a file, a model or a folder with one of them.

    Raises `Code.BAD_LEDGER_FILE` where there is none.
    """
    asked = file
    # False where nobody may look: reading says why.
    if os.path.isdir(file):
        named = [file / name for name in ("ledger.json", "model.json")]
        file = next((path for path in named if path.exists()), named[0])
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise Code.BAD_LEDGER_FILE.error(
            expected="a ledger or model file (JSON), or a folder that has one",
            found=f"{file}: {why}",
            fix=_fix_for_party(asked, "models show")
            or "check the path; `hedgerow fit` writes ledger.json beside model.json",
        ) from None
    if text.strip() and not text.lstrip().startswith("{"):
        raise Code.BAD_LEDGER_FILE.error(
            expected="a ledger or model file (JSON), or a folder that has one",
            found=f"{file}: this is no ledger, it looks like {_kind_of_text(text.encode()).noun}",
            fix="name the ledger.json or the model.json that `hedgerow fit` wrote",
        )
    data = jsonfile.loads(text, Code.BAD_LEDGER_FILE)
    if "privacy" not in data:
        # A ledger itself, or something that its reader will name.
        if "domain" in data and "entries" not in data:
            raise Code.BAD_LEDGER_FILE.error(
                expected="a model with a ledger in it",
                found=f"{file}: a model without one",
                fix="look for ledger.json beside it; a model that makes no claim has none",
            )
        return text
    return json.dumps(data["privacy"])
