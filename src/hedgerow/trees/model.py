"""Model files: a public model of any type together with the ledger that it was paid from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.errors import Code
from hedgerow.trees import schema
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.forest import Forest
from hedgerow.trees.tree import Tree

Model = Tree | Forest | Boosted


class ModelFile(NamedTuple):
    """What a model file holds.

    Attributes
    ----------
    model : Tree, Forest or Boosted
    privacy : dict or None
        The ledger's JSON object as it was written; None if the file makes no statement.
    """

    model: Model
    privacy: dict[str, Any] | None


def model_from_json(text: str | bytes) -> ModelFile:
    """Read a model document of any type; it is checked whole before any of it is used.

    Raises
    ------
    HedgerowError
        `Code.BAD_MODEL_FILE` or `Code.MODEL_VERSION`.
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
    """Read a model file written by `write_model`."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise Code.BAD_MODEL_FILE.error(
            found=f"{path}: {error.strerror}", fix="check the path"
        ) from error
    return model_from_json(text)


def write_model(model: Model, path: str | Path, *, privacy: dict[str, Any] | None = None) -> None:
    """Write a model, and its ledger's JSON object if given, to a UTF-8 JSON file."""
    text = model.to_json(privacy=privacy)
    Path(path).write_bytes(schema.build(lambda: text.encode("utf-8")))
