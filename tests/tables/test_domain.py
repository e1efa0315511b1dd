import json
import tomllib

import numpy as np
import pytest
from hypothesis import given

import hedgerow.tables.domain as module
from hedgerow.errors import Code, HedgerowError, HedgerowWarning
from hedgerow.tables import Attribute, Domain, Target
from tests.tables.table_strategies import domains, relaxed

AGE = Attribute(name="age", kind="numeric", bounds=(17, 90), bins=32)
WORK = Attribute(
    name="work", kind="categorical", categories=("a", "b"), missing="own bin", outside="clip"
)
INCOME = Target(name="income", classes=("<=50K", ">50K"))
DOMAIN = Domain(attributes=(AGE, WORK), target=INCOME, capacity=100)


def test_facts():
    assert DOMAIN.names == ("age", "work")
    assert DOMAIN.n_bins.tolist() == [32, 4]
    assert DOMAIN.n_bins.dtype == np.int32
    assert DOMAIN.dtype == np.uint8
    assert DOMAIN.index("work") == 1
    assert DOMAIN.indices() == [0, 1]
    assert DOMAIN.indices(["work", 0]) == [1, 0]


@pytest.mark.parametrize(
    ("bins", "missing", "dtype"),
    [(256, "error", np.uint8), (255, "own bin", np.uint8), (256, "own bin", np.uint16)],
)
def test_dtype(bins, missing, dtype):
    wide = Attribute(name="a", kind="numeric", bounds=(0, 1), bins=bins, missing=missing)
    assert Domain(attributes=(AGE, wide)).dtype == dtype


def test_select():
    part = DOMAIN.select(["work"], target=False)
    assert part.attributes == (WORK,)
    assert part.target is None
    assert part.capacity == 100
    assert DOMAIN.select([1, 0]).names == ("work", "age")
    assert DOMAIN.select([0]).target == INCOME


@pytest.mark.parametrize("wrong", [["nope"], [2], [-1]])
def test_unknown_column(wrong):
    with pytest.raises(HedgerowError, match="H107"):
        DOMAIN.select(wrong)


def test_provenance():
    assert DOMAIN.is_public
    assert DOMAIN.confirm_public() is DOMAIN
    read = Domain.suggest({"a": [1, 2]}, quiet=True)
    assert read.provenance == "read from data"
    assert not read.is_public
    confirmed = read.confirm_public()
    assert confirmed.provenance == "confirmed public"
    assert confirmed.is_public
    assert confirmed.attributes == read.attributes


def test_suggest_warns_where_it_was_called():
    with pytest.warns(HedgerowWarning, match="READ FROM THE DATA") as caught:
        Domain.suggest({"a": [1, 2]})
    assert caught[0].filename == __file__


@relaxed
@given(domains())
def test_round_trips(domain):
    assert Domain.from_dict(domain.to_dict()) == domain
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain
    text = domain.to_toml()
    again = Domain.from_toml(text)
    assert again == domain
    assert again.to_toml() == text
    for one, other in zip(again.attributes, domain.attributes, strict=True):
        np.testing.assert_array_equal(one.cuts, other.cuts)
        if one.categories is not None:
            assert list(map(type, one.categories)) == list(map(type, other.categories))


def test_toml_file(tmp_path):
    path = tmp_path / "domain.toml"
    path.write_text(DOMAIN.to_toml())
    assert Domain.from_toml(path) == DOMAIN
    assert Domain.from_toml(str(path)) == DOMAIN


def test_the_example_of_the_documentation():
    text = "\n".join(line[4:] for line in module.__doc__.splitlines() if line.startswith("    "))
    domain = Domain.from_toml(text)
    assert domain.capacity == 50_000
    assert domain.n_bins.tolist() == [32, 5]
    assert domain.target == INCOME


def test_text_has_a_line_break_and_a_path_has_none(tmp_path, monkeypatch):
    text = 'attributes = [{name = "a", kind = "numeric", bounds = [0, 1]}]'
    assert Domain.from_toml(text + "\n").names == ("a",)
    with pytest.raises(
        HedgerowError, match=r"H114.*the file of a domain.*the file was not found.*check the path"
    ):
        Domain.from_toml("capacity = 3")
    (tmp_path / "run=1").mkdir()
    (tmp_path / "run=1" / "d.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert Domain.from_toml("run=1/d.toml").names == ("a",)


@pytest.mark.parametrize(
    "bad",
    [
        "attributes = [",
        "capacity = 3",
        f"capacity = {'9' * 5000}",
        f"capacity = {'[' * 5000}",
        f"attributes = {'{a = ' * 5000}",
        "attributes = 3",
        "attributes = []",
        'attributes = [{name = "a", kind = "numeric"}]',
        'attributes = [{name = "a", kind = "numeric", bounds = [0, 1], colour = 1}]',
        'colour = 1\nattributes = [{name = "a", kind = "numeric", bounds = [0, 1]}]',
        'capacity = 0\nattributes = [{name = "a", kind = "numeric", bounds = [0, 1]}]',
        'target = {}\nattributes = [{name = "a", kind = "numeric", bounds = [0, 1]}]',
        'provenance = "rumour"\nattributes = [{name = "a", kind = "numeric", bounds = [0, 1]}]',
    ],
)
def test_bad_file(bad):
    with pytest.raises(HedgerowError, match="H114") as caught:
        Domain.from_toml(bad + "\n")
    assert caught.value.code is Code.BAD_DOMAIN_FILE


def test_bad_file_names_file_and_attribute(tmp_path):
    path = tmp_path / "domain.toml"
    path.write_text('[[attributes]]\nname = "age"\nkind = "numeric"\n')
    with pytest.raises(HedgerowError, match=r"domain\.toml.*'age'.*bounds"):
        Domain.from_toml(path)


def test_no_file(tmp_path):
    with pytest.raises(HedgerowError, match="H114"):
        Domain.from_toml(tmp_path / "nothing.toml")
    latin = tmp_path / "latin.toml"
    latin.write_bytes("name = 'é'".encode("latin-1"))
    with pytest.raises(HedgerowError, match="H114"):
        Domain.from_toml(latin)
    with pytest.raises(HedgerowError, match="H114"):
        Domain.from_toml("null\0character.toml")


@pytest.mark.parametrize("junk", [None, 3, [1]])
def test_from_dict_of_something_else(junk):
    with pytest.raises(HedgerowError, match="H114"):
        Domain.from_dict(junk)


@pytest.mark.parametrize(
    ("bad", "number"),
    [
        ({"attributes": ()}, "H117"),
        ({"attributes": (AGE,), "capacity": 0}, "H117"),
        ({"attributes": (AGE,), "capacity": 2.5}, "H117"),
        ({"attributes": (AGE,), "colour": 1}, "H117"),
        ({"attributes": (AGE,), "provenance": "rumour"}, "H117"),
        ({"attributes": (AGE, AGE)}, "H106"),
        ({"attributes": (AGE,), "target": Target(name="age", bounds=(0, 1))}, "H106"),
        ({"attributes": ({"name": "a", "kind": "numeric"},)}, "H113"),
        ({"attributes": (AGE,), "target": {"name": "y"}}, "H116"),
    ],
)
def test_bad_domain(bad, number):
    with pytest.raises(HedgerowError, match=number):
        Domain(**bad)


def test_toml_is_plain_toml():
    data = tomllib.loads(DOMAIN.to_toml())
    assert list(data) == ["capacity", "provenance", "target", "attributes"]
    assert data["attributes"][0] == {
        "name": "age",
        "kind": "numeric",
        "bounds": [17.0, 90.0],
        "bins": 32,
        "missing": "error",
        "outside": "clip",
    }
