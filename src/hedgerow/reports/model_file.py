"""What a model file tells of itself, as facts for a report."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from hedgerow.privacy import Ledger
from hedgerow.reports.facts import Facts
from hedgerow.reports.words import kind_of
from hedgerow.trees import read_model


def facts_of_file(path: Path) -> Facts:
    """Return what is in a model file, or in the folder of a fit; raises what `read_model` does."""
    is_folder = os.path.isdir(path)
    file = path / "model.json" if is_folder else path
    read = read_model(path)
    ledger = None if read.privacy is None else Ledger.from_json(json.dumps(read.privacy))
    return Facts(
        name=path.resolve().name if is_folder else path.stem,
        kind=kind_of(read.model),
        setting="file",
        domain=read.model.domain,
        model=read.model,
        ledger=ledger,
        provenance=(("model file, SHA-256", hashlib.sha256(file.read_bytes()).hexdigest()),),
    )
