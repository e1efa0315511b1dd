"""The benchmark beside SPU compares trees that are the same; nothing is installed for a test."""

import json

import numpy as np
import pytest

from bench import environment, pivot_spu
from bench.__main__ import names
from bench.pivot import Case

TINY = Case(n=60, m=2, each=2, classes=2, depth=2)


def test_it_is_found() -> None:
    assert "pivot_spu" in names()


def test_the_splits_that_the_peer_is_checked_with() -> None:
    found = pivot_spu.choices(pivot_spu.in_the_clear(TINY), TINY)
    assert [len(level) for level in found["levels"]] == [1, 2]
    left = [TINY.column(j, TINY.n) <= t for j in range(4) for t in range(TINY.bins - 1)]
    ((root,), children) = found["levels"]
    sides = [left[root] & left[children[0]], left[root] & ~left[children[0]]]
    sides += [~left[root] & left[children[1]], ~left[root] & ~left[children[1]]]
    assert np.sum(sides, axis=0).tolist() == [1] * TINY.n
    counts = [np.bincount(TINY.target()[side], minlength=TINY.classes) for side in sides]
    assert found["leaves"] == np.argmax(counts, axis=1).tolist()


@pytest.mark.parametrize("wrong", [{"levels": [[0], [0, 0]]}, {"leaves": [9, 9, 9, 9]}])
def test_a_tree_that_is_not_carts_is_an_error(wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pivot_spu.choices(pivot_spu.in_the_clear(TINY), TINY)
    monkeypatch.setattr(pivot_spu, "run_peer", lambda *_: right)
    assert pivot_spu.peer(TINY) == right
    monkeypatch.setattr(pivot_spu, "run_peer", lambda *_: right | wrong)
    with pytest.raises(RuntimeError, match="differs from CART's"):
        pivot_spu.peer(TINY)


def test_a_tiny_case() -> None:
    stamp = environment.ROOT / ".bench" / "spu" / "requirements.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != pivot_spu.PEER:
        pytest.skip("the environment of SPU is not there; `python -m bench pivot_spu` makes it")
    rows = pivot_spu.compared(TINY)
    assert [each["unit"] for each in rows] == ["s", "s", "MB"]
    # What was set up for the first tree is there for the second.
    assert all(0 < each["peer_set_up_before"] < each["peer"] for each in rows)
