"""Plain values and arrays between a launcher and its own processes, as JSON and NumPy files.

No pickle: reading a file never runs code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_ARRAY, _BYTES = "__array__", "__bytes__"


def write_value(path: Path, value: Any) -> None:
    """Write a value to ``path`` (JSON) and its arrays beside it.

    It is None, bool, number, str, bytes, ndarray (not of objects), or lists, tuples (read back as
    lists) and dicts with str keys of these.
    """
    count = 0

    def pack(item: Any) -> Any:
        nonlocal count
        if isinstance(item, np.ndarray):
            name = f"{path.stem}.{count}.npy"
            count += 1
            np.save(path.with_name(name), item, allow_pickle=False)
            return {_ARRAY: name}
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, bytes):
            return {_BYTES: item.hex()}
        if isinstance(item, list | tuple):
            return [pack(part) for part in item]
        if isinstance(item, dict):
            return {str(key): pack(part) for key, part in item.items()}
        return item

    path.write_text(json.dumps(pack(value)), encoding="utf-8")


def read_value(path: Path) -> Any:
    """Read what `write_value` wrote."""

    def unpack(item: Any) -> Any:
        if isinstance(item, list):
            return [unpack(part) for part in item]
        if isinstance(item, dict):
            if set(item) == {_ARRAY}:
                return np.load(path.with_name(Path(item[_ARRAY]).name), allow_pickle=False)
            if set(item) == {_BYTES}:
                return bytes.fromhex(item[_BYTES])
            return {key: unpack(part) for key, part in item.items()}
        return item

    return unpack(json.loads(path.read_text(encoding="utf-8")))
