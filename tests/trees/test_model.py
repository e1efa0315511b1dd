"""Model files with their ledger."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow
from hedgerow.errors import Code, HedgerowError
from hedgerow.trees.forest import Forest
from hedgerow.trees.model import model_from_json, read_model, write_model
from tests.trees.tree_strategies import random_boosted, random_domain, random_tree


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


def test_a_folder_of_a_fit_is_read_by_its_model(tmp_path):
    write_model(models()[0], tmp_path / "model.json")
    assert hedgerow.read_model(tmp_path).model == models()[0]
    (tmp_path / "model.json").unlink()
    with pytest.raises(HedgerowError, match=r"model\.json: No such file"):
        read_model(str(tmp_path))


def test_refuses_what_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / ("m" * 300)):
        with pytest.raises(HedgerowError) as caught:
            read_model(path)
        assert caught.value.code is Code.NO_MODEL_FILE
    with pytest.raises(HedgerowError) as caught:
        model_from_json(b"\x80")
    assert caught.value.code is Code.BAD_MODEL_FILE


def test_refuses_to_write_what_utf8_cannot_hold(tmp_path):
    with pytest.raises(HedgerowError) as caught:
        write_model(models()[0], tmp_path / "model.json", privacy={"note": "\ud800"})
    assert caught.value.code is Code.BAD_MODEL_FILE
    assert not (tmp_path / "model.json").exists()


def test_says_of_a_file_that_was_cut_off_that_it_is_incomplete(tmp_path):
    path = tmp_path / "model.json"
    write_model(models()[1], path, privacy={"reason": "Blätter", "releases": [{"epsilon": 0.1}]})
    whole = path.read_bytes()
    after_a_part = whole.index(b"}") + 1
    in_a_letter = whole.index("ä".encode()) + 1
    for length in (0, 1, 100, after_a_part, in_a_letter, len(whole.rstrip()) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(HedgerowError, match=r"model\.json: the file is incomplete") as caught:
            read_model(path)
        assert caught.value.code is Code.MODEL_FILE_CUT_OFF
        assert "again" in caught.value.fix
    for other in (b"name,age\n1,2\n", b'{"a": 1,}', b"{}"):
        path.write_bytes(other)
        with pytest.raises(HedgerowError, match=r"model\.json: ") as caught:
            read_model(path)
        assert "incomplete" not in caught.value.found
