"""Kernels compile once and are kept; where nothing can be kept they still run."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching

from hedgerow import compiled
from hedgerow.compiled import A, jit

SOURCE = Path(compiled.__file__).parent


def total(x: A) -> A:
    out = 0
    for i in range(x.size):
        out += x[i]
    return out


def test_a_kernel_is_compiled_and_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path))
    assert jit(total)(np.arange(5)) == 10
    assert len(list(tmp_path.rglob("*.nbi"))) == 1
    again = jit(total)
    assert again(np.arange(6)) == 15
    assert sum(again.stats.cache_hits.values()) == 1


def test_without_a_place_to_keep_it(monkeypatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    kernel = jit(total)
    assert kernel(np.arange(5)) == 10
    assert kernel.stats.cache_path is None


def test_any_other_trouble_is_not_hidden(monkeypatch) -> None:
    def broken(*args, **options):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled, "njit", broken)
    with pytest.raises(RuntimeError, match="no compiler"):
        jit(total)


READ_ONLY_INSTALL = """
from numba.core import caching

# What is left of Numba's list where neither the package nor a home can be written.
caching.CacheImpl._locator_classes = [caching.UserProvidedCacheLocator]

import numpy as np
from hedgerow.privacy.mechanisms.coin_kernels import flip
from hedgerow.tables import Domain, encode
from hedgerow.trees import predict
from hedgerow.trees.counts import boost_kernels, forest_kernels, kernels
from hedgerow.trees.growing import scoring, search

# Declared everywhere; the small ones are run, because the large ones take long to compile.
X = np.arange(8.0)[:, None]
bins = encode(X, Domain.suggest(X, quiet=True)).bins
side = flip(np.array([3], np.uint8), 0, np.array([9], np.uint8))
print(flip.stats.cache_path, bins[-1, 0], *side, *predict.depths(np.array([-1, 0, 1])))
"""


def test_every_room_runs_in_a_read_only_install(tmp_path) -> None:
    """A cache folder below a plain file can be made by nobody, the superuser included."""
    (tmp_path / "file").touch()
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY_INSTALL],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["None", "7", "1", "1", "0", "1", "2"]


def test_kernels_are_declared_in_one_way() -> None:
    own = {path.name for path in SOURCE.rglob("*.py") if "njit" in path.read_text()}
    assert own == {"compiled.py"}
