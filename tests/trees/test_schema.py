"""The model document: exact round trip, the written schema, and hostile files."""

from __future__ import annotations

import copy
import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Code, HedgerowError
from hedgerow.tables.attribute import Attribute
from hedgerow.trees import schema
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.forest import Forest
from hedgerow.trees.layout import SplitKind
from hedgerow.trees.model import model_from_json
from hedgerow.trees.tree import Tree
from tests.trees.tree_strategies import (
    boosteds,
    forests,
    quick,
    random_bins,
    random_boosted,
    random_domain,
    random_tree,
    single_split,
    trees,
)

WRITTEN = json.loads(files("hedgerow.trees").joinpath("model.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(WRITTEN)


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
@given(st.one_of(trees(), forests(), boosteds()))
def test_output_follows_the_written_schema(model):
    VALIDATOR.validate(json.loads(model.to_json()))
    VALIDATOR.validate(json.loads(model.to_json(privacy={"releases": []})))


def test_the_schema_is_a_schema_and_fixes_the_version():
    written = WRITTEN
    jsonschema.Draft202012Validator.check_schema(written)
    assert written["properties"]["version"]["const"] == schema.VERSION
    assert written["properties"]["minor"]["enum"] == list(range(schema.MINOR + 1))
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


@pytest.mark.parametrize("minor", [4, -1, "1", None, 1.0, True, [1]])
def test_other_minor_versions_are_not_guessed(minor):
    with pytest.raises(HedgerowError, match="minor") as caught:
        Tree.from_dict(document() | {"minor": minor})
    assert caught.value.code is Code.MODEL_VERSION


COLOUR = Attribute(name="colour", kind="categorical", categories=("red", "green", "blue"))


def test_only_what_needs_it_states_a_minor_version():
    plain = single_split(COLOUR, SplitKind.VALUE, 1)
    subset = single_split(COLOUR, SplitKind.SUBSET, 0, [1, 0, 1])
    assert "minor" not in plain.to_dict()
    assert "minor" not in Forest([plain]).to_dict()
    assert plain.to_dict()["tree"]["subsets"] == []
    assert subset.to_dict()["minor"] == Forest([plain, subset]).to_dict()["minor"] == 1
    assert subset.to_dict()["tree"]["subsets"] == [[1, 0, 1]]
    assert random_boosted(np.random.default_rng(0)).to_dict()["minor"] == 1
    rng = np.random.default_rng(0)
    each = random_boosted(rng, random_domain(rng, classes=3), joint=False).to_dict()
    assert each["minor"] == 3
    with pytest.raises(HedgerowError, match="one-vs-rest"):
        Boosted.from_dict(each | {"minor": 2})


def as_version_1_0(found):
    """Write subsets as version 1.0 had them: one list of children, and where each begins."""
    for packed in [found["tree"]] if found["type"] == "tree" else found["trees"]:
        flat = []
        for v, kind in enumerate(packed["kind"]):
            if kind == SplitKind.SUBSET:
                row, packed["cut"][v] = packed["subsets"][packed["cut"][v]], len(flat)
                flat += [1 - x for x in row]
        packed["subsets"] = flat
    found.pop("minor", None)
    return found


@quick
@given(st.one_of(trees(), forests()))
def test_files_of_version_1_0_are_still_read(model):
    old = as_version_1_0(model.to_dict())
    VALIDATOR.validate(old)
    again = model_from_json(json.dumps(old)).model
    bins = random_bins(np.random.default_rng(0), model.domain, 200)
    assert np.array_equal(again.decide(bins), model.decide(bins))
    assert type(model).from_json(again.to_json()) == again


def test_subsets_of_version_1_0_may_overlap():
    old = as_version_1_0(single_split(COLOUR, SplitKind.SUBSET, 0, [1, 0, 1]).to_dict())
    old["tree"] |= {
        "kind": [3, 3, 0, 0, 0],
        "feature": [0, 0, -1, -1, -1],
        "cut": [1, 0, -1, -1, -1],
        "first_child": [1, 3, -1, -1, -1],
        "value": [[1, 1]] * 5,
        "weight": [1] * 5,
        "subsets": [0, 0, 1, 0],
    }
    tree = Tree.from_dict(old)
    bins = np.array([[0], [1], [2]], dtype=np.uint8)
    assert tree.apply(bins).tolist() == [3, 2, 4]
    for spoiled in ([0, 0, 1], [0, 0, 1, 2], [[0, 0, 1, 0]], [], None, [0, 0, 1, True]):
        old["tree"]["subsets"] = spoiled
        with pytest.raises(HedgerowError) as caught:
            Tree.from_dict(old)
        assert caught.value.code is Code.BAD_MODEL_FILE
    for cut in (-1, 2, 2**31 - 1):
        old["tree"]["subsets"] = [0, 0, 1, 0]
        old["tree"]["cut"][0] = cut
        with pytest.raises(HedgerowError, match="subset outside") as caught:
            Tree.from_dict(old)
        assert caught.value.code is Code.BAD_MODEL_FILE


def test_overlapping_subsets_do_not_make_much_memory(monkeypatch):
    monkeypatch.setattr(schema, "MAX_CELLS", 8)
    old = as_version_1_0(single_split(COLOUR, SplitKind.SUBSET, 0, [1, 0, 1]).to_dict())
    n = 7
    old["tree"] |= {
        "kind": [3, 3, 3, 0, 0, 0, 0],
        "feature": [0, 0, 0, -1, -1, -1, -1],
        "cut": [0, 1, 2, -1, -1, -1, -1],
        "first_child": [1, 3, 5, -1, -1, -1, -1],
        "value": [None] * 3 + [[1, 1]] * (n - 3),
        "weight": [1] * n,
        "subsets": [0, 0, 1, 0, 1],
    }
    with pytest.raises(HedgerowError, match="more than") as caught:
        Tree.from_dict(old)
    assert caught.value.code is Code.BAD_MODEL_FILE


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (change(["tree", "subsets"], [[1, 0]]), "where every bin goes"),
        (change(["tree", "subsets"], [[]]), "where every bin goes"),
        (change(["tree", "subsets"], [[1, 0, 1, 0]]), "no attribute has more than 3"),
        (change(["tree", "subsets"], [[1, 0, 1], [1, 0]]), "different lengths"),
        (change(["tree", "subsets"], []), "no row of"),
        (change(["tree", "subsets"], KeyError), "no row of"),
        (change(["tree", "cut", 0], 1), "no row of"),
        (change(["tree", "cut", 0], -1), "no row of"),
        (change(["tree", "subsets"], None), "no list of rows"),
        (change(["tree", "subsets"], [1, 0, 1]), "no list of rows"),
        (change(["tree", "subsets"], ["101"]), "no list of rows"),
        (change(["tree", "subsets", 0, 0], 2), "other than 0 and 1"),
        (change(["tree", "subsets", 0, 0], True), "other than 0 and 1"),
        (change(["tree", "subsets", 0, 0], 1.0), "other than 0 and 1"),
        (change(["tree", "subsets", 0, 0], None), "other than 0 and 1"),
        (change(["tree", "subsets", 0, 0], [1]), "other than 0 and 1"),
        (change(["minor"], 0), "32 bits"),
        (change(["minor"], KeyError), "32 bits"),
    ],
)
def test_spoiled_subsets_are_refused(spoil, says):
    found = single_split(COLOUR, SplitKind.SUBSET, 0, [1, 0, 1]).to_dict()
    assert Tree.from_dict(copy.deepcopy(found)).subsets.tolist() == [[True, False, True]]
    with pytest.raises(HedgerowError, match=says) as caught:
        Tree.from_dict(spoil(found))
    assert caught.value.code is Code.BAD_MODEL_FILE


@pytest.mark.parametrize(
    "spoil",
    [
        change(["boosted"], KeyError),
        change(["boosted"], []),
        change(["boosted"], None),
        change(["boosted", "extra"], 1),
        change(["boosted", "start"], KeyError),
        change(["boosted", "start"], 0.5),
        change(["boosted", "start"], []),
        change(["boosted", "start"], [0.0, 0.0]),
        change(["boosted", "start"], [0.0, 0.0, None]),
        change(["boosted", "start"], [0.0, 0.0, "0"]),
        change(["boosted", "start"], [0.0, 0.0, True]),
        change(["boosted", "start"], [0.0, 0.0, 10**400]),
        change(["boosted", "start"], [1.7e308, -1.7e308, 1.7e308, 0.0]),
        change(["boosted", "link"], KeyError),
        change(["boosted", "link"], "logistic"),
        change(["boosted", "link"], "identity"),
        change(["boosted", "link"], "probit"),
        change(["boosted", "link"], ["softmax"]),
        change(["boosted", "trees"], KeyError),
        change(["boosted", "trees"], []),
        change(["boosted", "trees"], {}),
        change(["boosted", "trees", 5], KeyError),
        change(["boosted", "trees", 5], None),
        change(["boosted", "trees", 0, "value", -1], None),
        change(["boosted", "trees", 0, "value", -1], [None]),
        change(["boosted", "trees", 0, "value", -1], [0.0, 0.0, 0.0]),
        change(["boosted", "trees", 0, "cut", 0], 2**31 - 1),
        change(["domain", "target"], KeyError),
        change(["domain", "target", "classes"], ["a"]),
        change(["domain", "target", "classes"], ["a", "b"]),
        change(["domain", "target"], {"name": "y", "bounds": [0, 1]}),
        change(["minor"], 0),
        change(["minor"], KeyError),
        change(["type"], "forest"),
        change(["trees"], []),
    ],
)
def test_spoiled_boosted_trees_are_refused(spoil):
    rng = np.random.default_rng(0)
    found = random_boosted(rng, random_domain(rng, classes=3), rounds=2).to_dict()
    assert Boosted.from_dict(copy.deepcopy(found)).n_rounds == 2
    with pytest.raises(HedgerowError) as caught:
        Boosted.from_dict(spoil(found))
    assert caught.value.code is Code.BAD_MODEL_FILE


def test_boosted_values_that_are_not_finite_are_refused():
    rng = np.random.default_rng(0)
    model = random_boosted(rng, random_domain(rng, classes=2), rounds=2)
    huge = model.to_dict()
    for packed in huge["boosted"]["trees"]:
        packed["value"][-1] = [1.7e308]
    with pytest.raises(HedgerowError, match="can be infinite") as caught:
        Boosted.from_dict(huge)
    assert caught.value.code is Code.BAD_MODEL_FILE
    for number in ("NaN", "Infinity", "1e999"):
        with pytest.raises(HedgerowError) as caught:
            Boosted.from_json(model.to_json().replace('"start":[', f'"start":[{number},', 1))
        assert caught.value.code is Code.BAD_MODEL_FILE


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
@given(st.data(), st.one_of(trees(max_splits=6), forests(max_splits=4), boosteds(max_splits=4)))
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


def test_of_noise_it_is_said_what_it_is_of_and_what_not():
    # It is that of released sums, and no band of other fits, wherever a reader may look.
    written = WRITTEN["properties"]["boosted"]["properties"]["noise"]["description"]
    for about in (written, Boosted.__doc__):
        said = " ".join(about.split())
        assert "noise that was added to sums of records, as it enters the values" in said
        assert "how far another fit would differ" in said


def test_a_forest_is_not_read_as_a_tree():
    text = Forest([Tree.from_dict(document())]).to_json()
    with pytest.raises(HedgerowError, match="forest"):
        Tree.from_json(text)
    for trees_ in ([], None, [None], {}):
        with pytest.raises(HedgerowError) as caught:
            Forest.from_dict(json.loads(text) | {"trees": trees_})
        assert caught.value.code is Code.BAD_MODEL_FILE
