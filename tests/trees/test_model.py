"""Model files with their ledger."""

from __future__ import annotations

import numpy as np
import pytest
from tree_strategies import random_boosted, random_domain, random_tree

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.forest import Forest
from hedgerow.trees.model import model_from_json, read_model, write_model


def models():
    rng = np.random.default_rng(0)
    domain = random_domain(rng)
    return [
        random_tree(rng, domain),
        Forest([random_tree(rng, domain) for _ in range(3)]),
        random_boosted(rng, random_domain(rng, classes=3)),
    ]


@pytest.mark.parametrize("model", models(), ids=["tree", "forest", "boosted"])
def test_a_file_carries_the_model_and_its_ledger(model, tmp_path):
    ledger = {"releases": [{"epsilon": 0.1, "reason": "Blätter"}]}
    write_model(model, tmp_path / "model.json", privacy=ledger)
    assert read_model(tmp_path / "model.json") == (model, ledger)
    write_model(model, str(tmp_path / "model.json"))
    assert read_model(str(tmp_path / "model.json")).privacy is None


def test_refuses_what_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(HedgerowError) as caught:
            read_model(path)
        assert caught.value.code is Code.BAD_MODEL_FILE
    with pytest.raises(HedgerowError) as caught:
        model_from_json(b"\x80")
    assert caught.value.code is Code.BAD_MODEL_FILE


def test_refuses_to_write_what_utf8_cannot_hold(tmp_path):
    with pytest.raises(HedgerowError) as caught:
        write_model(models()[0], tmp_path / "model.json", privacy={"note": "\ud800"})
    assert caught.value.code is Code.BAD_MODEL_FILE
    assert not (tmp_path / "model.json").exists()
