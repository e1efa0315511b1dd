"""The model document: exact round trip, the written schema, and hostile files."""

from __future__ import annotations

import copy
import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tree_strategies import forests, quick, random_domain, random_tree, trees

from hedgerow.errors import Code, HedgerowError
from hedgerow.trees import schema
from hedgerow.trees.forest import Forest
from hedgerow.trees.model import model_from_json
from hedgerow.trees.tree import Tree

VALIDATOR = jsonschema.Draft202012Validator(schema.json_schema())


def document(seed=0, **options):
    rng = np.random.default_rng(seed)
    return random_tree(rng, random_domain(rng, classes=3), max_splits=5, **options).to_dict()


@quick
@given(trees())
def test_round_trip_is_exact(tree):
    again = Tree.from_json(tree.to_json())
    assert again == tree
    assert again.value.tobytes() == tree.value.tobytes()
    assert Tree.from_json(tree.to_json().encode()) == tree


@quick
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), min_size=3, max_size=3))
def test_every_finite_float_survives(values):
    tree = Tree.from_dict(document())
    value = np.where(np.isnan(tree.value), np.nan, values)
    tree = Tree(tree.domain, **(tree.arrays | {"value": value}))
    assert Tree.from_json(tree.to_json()).value.tobytes() == tree.value.tobytes()


@quick
@given(st.one_of(trees(), forests()))
def test_output_follows_the_written_schema(model):
    VALIDATOR.validate(json.loads(model.to_json()))
    VALIDATOR.validate(json.loads(model.to_json(privacy={"releases": []})))


def test_the_schema_is_a_schema_and_fixes_the_version():
    written = schema.json_schema()
    jsonschema.Draft202012Validator.check_schema(written)
    assert written["properties"]["version"]["const"] == schema.VERSION
    assert written["properties"]["format"]["const"] == schema.FORMAT
    assert set(written["properties"]["type"]["enum"]) == set(schema.BODY)


def test_text_is_compact_and_unreleased_numbers_are_null():
    tree = Tree.from_dict(document(released=False))
    text = tree.to_json()
    assert ": " not in text
    assert "NaN" not in text
    packed = json.loads(text)["tree"]
    assert packed["value"][0] is None
    assert set(packed["weight"]) == {None}


def change(path, value):
    def apply(found):
        at = found
        for key in path[:-1]:
            at = at[key]
        if value is KeyError:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        return found

    return apply


@pytest.mark.parametrize(
    "spoil",
    [
        change(["format"], "other"),
        change(["type"], "boosted"),
        change(["type"], ["tree"]),
        change(["type"], "forest"),
        change(["tree"], KeyError),
        change(["tree"], []),
        change(["tree"], None),
        change(["extra"], 1),
        change(["privacy"], "none"),
        change(["privacy"], None),
        change(["domain"], None),
        change(["domain"], {}),
        change(["domain", "target"], KeyError),
        change(["domain", "attributes"], 3),
        change(["domain", "attributes"], [1]),
        change(["domain", "attributes", 0, "kind"], "ordinal"),
        change(["domain", "target"], {"name": "y", "bounds": [0, 1]}),
        change(["tree", "extra"], []),
        change(["tree", "kind"], KeyError),
        change(["tree", "kind"], {}),
        change(["tree", "kind"], "0123"),
        change(["tree", "kind", 0], True),
        change(["tree", "kind", 0], 1.0),
        change(["tree", "kind", 0], "1"),
        change(["tree", "kind", 0], None),
        change(["tree", "kind", 0], 10**30),
        change(["tree", "kind", 0], -1),
        change(["tree", "feature", 0], 10**6),
        change(["tree", "first_child", 0], 0),
        change(["tree", "first_child", 0], -5),
        change(["tree", "cut", 0], 2**31 - 1),
        change(["tree", "weight", 0], "7"),
        change(["tree", "weight", 0], True),
        change(["tree", "weight", 0], 10**400),
        change(["tree", "weight"], [1.0]),
        change(["tree", "value"], []),
        change(["tree", "value", -1], None),
        change(["tree", "value", -1], [1, 2]),
        change(["tree", "value", -1], [1, 2, None]),
        change(["tree", "value", -1], [1, 2, [3]]),
        change(["tree", "value", -1], 7),
        change(["tree", "subsets"], [2]),
        change(["tree", "subsets"], None),
    ],
)
def test_spoiled_documents_are_refused(spoil):
    with pytest.raises(HedgerowError) as caught:
        Tree.from_dict(spoil(copy.deepcopy(document())))
    assert caught.value.code is Code.BAD_MODEL_FILE


@pytest.mark.parametrize("version", [0, 2, "1", None, 1.0, True, [1]])
def test_other_versions_are_not_guessed(version):
    with pytest.raises(HedgerowError) as caught:
        Tree.from_dict(document() | {"version": version})
    assert caught.value.code is Code.MODEL_VERSION


@pytest.mark.parametrize(
    "text",
    ["", "[]", b"\xff\xfe", "[" * 100_000, '{"version": 1, "version": 1}', '{"version": NaN}'],
    ids=lambda text: repr(text[:20]),
)
def test_text_that_is_no_document(text):
    with pytest.raises(HedgerowError) as caught:
        model_from_json(text)
    assert caught.value.code is Code.BAD_MODEL_FILE


def test_short_files_do_not_make_much_memory():
    wide = document()
    attribute = {"kind": "numeric", "bounds": [0, 1], "bins": 65_535}
    wide["domain"]["attributes"] = [attribute | {"name": f"x{j}"} for j in range(300)]
    deep = document()
    deep["domain"]["target"]["classes"] = list(range(65_536))
    deep["tree"]["value"] = [None] * 10_000
    for found in (wide, deep):
        with pytest.raises(HedgerowError, match="more than") as caught:
            Tree.from_dict(found)
        assert caught.value.code is Code.BAD_MODEL_FILE


def test_numbers_too_large_for_a_float_are_refused():
    text = json.dumps(document()).replace('"weight": [', '"weight": [1e999, ', 1)
    with pytest.raises(HedgerowError) as caught:
        model_from_json(text)
    assert caught.value.code is Code.BAD_MODEL_FILE


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 20),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.lists(st.integers(-2, 9), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


def places(found, path=()):
    """Every path into a document, containers included."""
    yield path
    entries = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in entries:
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


@quick
@given(st.data(), st.one_of(trees(max_splits=6), forests(max_splits=4)))
def test_mutated_documents_are_read_whole_or_refused(data, model):
    found = model.to_dict()
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in places(found) if p]))
        at = found
        for key in path[:-1]:
            at = at[key]
        if data.draw(st.booleans()):
            at[path[-1]] = data.draw(JUNK)
        else:
            del at[path[-1]]
    read = refused = None
    try:
        read = model_from_json(json.dumps(found)).model
    except HedgerowError as error:
        refused = error.code
    if read is None:
        assert refused in (Code.BAD_MODEL_FILE, Code.MODEL_VERSION)
        return
    # What is accepted is a tree: it answers, and it is written as it was read.
    bins = np.zeros((3, len(read.domain.attributes)), dtype=np.uint8)
    assert np.isfinite(read.decide(bins)).all()
    assert type(read).from_json(read.to_json()) == read


@quick
@given(trees(max_splits=5), st.data())
def test_truncated_text_is_refused(tree, data):
    text = tree.to_json()
    with pytest.raises(HedgerowError) as caught:
        Tree.from_json(text[: data.draw(st.integers(0, len(text) - 1))])
    assert caught.value.code is Code.BAD_MODEL_FILE


def test_a_ledger_that_is_no_json_is_refused_when_written():
    tree = Tree.from_dict(document())
    for privacy in ({"epsilon": float("inf")}, {"epsilon": object()}):
        with pytest.raises(HedgerowError) as caught:
            tree.to_json(privacy=privacy)
        assert caught.value.code is Code.BAD_MODEL_FILE


def test_a_forest_is_not_read_as_a_tree():
    text = Forest([Tree.from_dict(document())]).to_json()
    with pytest.raises(HedgerowError, match="forest"):
        Tree.from_json(text)
    for trees_ in ([], None, [None], {}):
        with pytest.raises(HedgerowError) as caught:
            Forest.from_dict(json.loads(text) | {"trees": trees_})
        assert caught.value.code is Code.BAD_MODEL_FILE
