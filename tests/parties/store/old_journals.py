"""Journals as earlier versions wrote them."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_journal(path: Path, about: Mapping[str, Any], *entries: Mapping[str, Any]) -> list[bytes]:
    """Write a journal, or add to one; return all of its lines."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    every = [*entries] if lines else [{"journal": 1, "about": dict(about)}, *entries]
    for entry in every:
        before = json.loads(lines[-1])["sum"] if lines else "0" * 64
        whole = {"entry": dict(entry), "n": len(lines)}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
        made = hashlib.blake2b(before.encode() + text, digest_size=32, person=b"hedgerow/journal")
        lines.append(text[:-1] + b',"sum":"' + made.hexdigest().encode() + b'"}\n')
    path.write_bytes(b"".join(lines))
    os.chmod(path, 0o600)
    return lines
