"""The JSON document of a model: what is written, and what is checked before any of it is used.

::

    {"format": "hedgerow-model", "version": 1, "type": "tree", "domain": {...}, "tree": {...}}

The arrays of a tree are lists; a number that was not released (NaN) is null. The format is fixed
by ``model.schema.json`` beside this file. A model file comes from elsewhere and is not trusted:
every refusal is `Code.BAD_MODEL_FILE` or `Code.MODEL_VERSION`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow import jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.jsonfile import shown
from hedgerow.tables.domain import Domain

FORMAT = "hedgerow-model"
VERSION = 1
BODY = {"tree": "tree", "forest": "trees"}
"""Types of model and the key under which each keeps its nodes."""

MAX_TOTAL_BINS = 1 << 24
"""Bins that the numeric attributes of a model may declare together: one short line of a file
makes memory of them."""
MAX_CELLS = 1 << 27
"""Nodes times outputs that a tree in a file may have, for the same reason."""

_INTEGERS = ("kind", "feature", "cut", "first_child")
_TREE_KEYS = {*_INTEGERS, "value", "weight", "subsets"}
T = TypeVar("T")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the model document."""
    text = files("hedgerow.trees").joinpath("model.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def document(
    type_: str, domain: Domain, body: Any, privacy: dict[str, Any] | None
) -> dict[str, Any]:
    """Put the model document together; `privacy` is the ledger's JSON object, kept as it is."""
    made = {
        "format": FORMAT,
        "version": VERSION,
        "type": type_,
        "domain": domain.to_dict(),
        BODY[type_]: body,
    }
    return made if privacy is None else {**made, "privacy": privacy}


def open_document(found: Any, type_: str) -> tuple[Domain, Any, dict[str, Any] | None]:
    """Check the frame of a model document and read its domain.

    Returns
    -------
    domain, body, privacy
        The body is still unchecked.
    """
    kind = document_type(found)
    if kind != type_:
        refuse(f"a model of type {kind!r} where a {type_} is read")
    keys(found, {"format", "version", "type", "domain", BODY[type_]}, {"privacy"}, "the model")
    privacy = found.get("privacy")
    if "privacy" in found and not isinstance(privacy, dict):
        refuse(f"a privacy object of type {type(privacy).__name__}")
    if not isinstance(found["domain"], dict):
        refuse(f"a domain of type {type(found['domain']).__name__}")
    _check_bins(found["domain"])
    return build(lambda: Domain.from_dict(found["domain"])), found[BODY[type_]], privacy


def document_type(found: Any) -> str:
    """Type of a model document, after format and version were checked."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        refuse(f"no object with format {FORMAT!r}")
    version = found.get("version")
    if type(version) is not int or version != VERSION:
        raise Code.MODEL_VERSION.error(
            found=f"version {shown(version)}", expected=f"version {VERSION}"
        )
    type_ = found.get("type")
    if not isinstance(type_, str) or type_ not in BODY:
        refuse(f"a model of unknown type {shown(type_)}")
    return type_


def pack_tree(arrays: dict[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Turn the arrays of a tree into lists; NaN becomes null, an unreleased row one null."""
    packed: dict[str, list[Any]] = {name: arrays[name].tolist() for name in _INTEGERS}
    unreleased = np.isnan(arrays["value"][:, 0])
    packed["value"] = [
        None if gone else row
        for gone, row in zip(unreleased.tolist(), arrays["value"].tolist(), strict=True)
    ]
    packed["weight"] = [None if x != x else x for x in arrays["weight"].tolist()]
    packed["subsets"] = arrays["subsets"].tolist()
    return packed


def unpack_tree(packed: Any, k: int) -> dict[str, NDArray[Any]]:
    """Read the lists of one tree; `Tree` itself checks what the numbers mean.

    Parameters
    ----------
    packed : object
        What stands in the document.
    k : int
        Number of outputs, from the domain.
    """
    keys(packed, _TREE_KEYS - {"subsets"}, {"subsets"}, "a tree")
    arrays: dict[str, NDArray[Any]] = {name: _integers(packed, name) for name in _INTEGERS}
    arrays["subsets"] = _integers(packed, "subsets") if "subsets" in packed else np.empty(0, int)
    arrays["weight"] = _floats(_list(packed, "weight"), "weight")
    rows = _list(packed, "value")
    if len(rows) * k > MAX_CELLS:
        refuse(f"more than {MAX_CELLS:,} values")
    released = [i for i, row in enumerate(rows) if row is not None]
    if not all(isinstance(rows[i], list) and len(rows[i]) == k for i in released):
        refuse(f"a row of value that is neither null nor a list of {k} numbers")
    flat = [x for i in released for x in rows[i]]
    if None in flat:
        refuse("a row of value that is null in part only")
    arrays["value"] = np.full((len(rows), k), np.nan)
    arrays["value"][released] = _floats(flat, "value").reshape(-1, k)
    return arrays


def build(make: Callable[[], T]) -> T:
    """Call `make`; what it refuses becomes `Code.BAD_MODEL_FILE`."""
    try:
        with jsonfile.refusing(Code.BAD_MODEL_FILE):
            return make()
    except HedgerowError as error:
        if error.code in (Code.BAD_MODEL_FILE, Code.MODEL_VERSION):
            raise
        raise Code.BAD_MODEL_FILE.error(
            found=f"{shown(error.found)} ({error.code.number})"
        ) from error


def dumps(found: dict[str, Any]) -> str:
    """Write compact JSON; floats as Python's shortest form that is read back exactly."""
    return build(
        lambda: json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    )


def loads(text: str | bytes) -> dict[str, Any]:
    """Read the text of a model document; see `hedgerow.jsonfile.loads`."""
    return jsonfile.loads(text, Code.BAD_MODEL_FILE)


def keys(found: Any, needed: set[str], allowed: set[str], where: str) -> None:
    """Refuse anything but an object with the needed and at most the allowed keys."""
    if not isinstance(found, dict):
        refuse(f"{where} of type {type(found).__name__}")
    if missing := sorted(needed - found.keys()):
        refuse(f"{where} without {', '.join(missing)}")
    if extra := sorted(map(str, found.keys() - needed - allowed)):
        refuse(f"{where} with unknown keys {shown(', '.join(extra))}")


def refuse(found: str) -> NoReturn:
    """Raise `Code.BAD_MODEL_FILE`."""
    raise Code.BAD_MODEL_FILE.error(found=found)


def _check_bins(domain: dict[str, Any]) -> None:
    attributes = domain.get("attributes")
    if not isinstance(attributes, list):
        refuse("a domain without a list of attributes")
    bins = [attribute.get("bins") for attribute in attributes if isinstance(attribute, dict)]
    if sum(b for b in bins if isinstance(b, int)) > MAX_TOTAL_BINS:
        refuse(f"a domain of more than {MAX_TOTAL_BINS:,} bins")


def _list(packed: dict[str, Any], name: str) -> list[Any]:
    if not isinstance(packed[name], list):
        refuse(f"{name} of type {type(packed[name]).__name__}")
    return list(packed[name])


def _integers(packed: dict[str, Any], name: str) -> NDArray[np.int64]:
    numbers = _list(packed, name)
    # bool is an int to Python, and 3.0 is none.
    if not all(type(x) is int and abs(x) < 2**31 for x in numbers):
        refuse(f"{name} with entries that are not integers of 32 bits")
    return np.array(numbers, dtype=np.int64)


def _floats(numbers: list[Any], name: str) -> NDArray[np.float64]:
    if not all(x is None or type(x) in (int, float) for x in numbers):
        refuse(f"{name} with entries that are not numbers or null")
    return build(lambda: np.array(numbers, dtype=np.float64))
