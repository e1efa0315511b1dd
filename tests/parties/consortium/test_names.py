"""No path can be built from a name."""

import pytest

from hedgerow.errors import Code, HedgerowError, InputError
from hedgerow.parties.consortium.names import check_file_name, check_name, complete, is_name

GOOD = ["a", "7", "alder", "ward-7", "a--b", "0" * 63]
BAD = [
    "",
    "-a",
    "a-",
    "A",
    "a" * 64,
    "..",
    ".",
    "../etc/passwd",
    "a/b",
    "a\\b",
    "/etc",
    "a.b",
    "a b",
    "a\n",
    "a\0",
    "ä",
    "а",  # Cyrillic
    "~root",
    "$HOME",
    None,
    7,
    b"a",
    ["a"],
]


@pytest.mark.parametrize("name", GOOD)
def test_plain_names_pass(name: str) -> None:
    assert check_name(name) == check_file_name(name) == name
    assert is_name(name)


@pytest.mark.parametrize("name", BAD, ids=repr)
def test_other_names_are_refused(name: object) -> None:
    assert not is_name(name)
    with pytest.raises(InputError) as caught:
        check_name(name, "model")
    assert caught.value.code is Code.BAD_NAME
    assert caught.value.found == f"model {name!r}"


def test_a_long_name_does_not_fill_the_log() -> None:
    with pytest.raises(HedgerowError) as caught:
        check_name("a" * 1_000_000)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["job.toml", "log.jsonl", "party.pem", "a-1.x"])
def test_a_file_may_have_one_ending(name: str) -> None:
    assert check_file_name(name) == name


@pytest.mark.parametrize(
    "name", [*BAD[:9], ".a", "a.", "a.b.c", "a.TOML", "a.b/c", "a..b", "a.b\n"]
)
def test_other_file_names_are_refused(name: str) -> None:
    with pytest.raises(HedgerowError) as caught:
        check_file_name(name)
    assert caught.value.code is Code.BAD_NAME


def test_a_beginning_that_no_other_has() -> None:
    names = ["ward-1", "ward-10", "tree-1", "../x"]
    assert complete("t", names, "run") == "tree-1"
    assert complete("ward-1", names, "run") == "ward-1"
    # What is unknown is for others to refuse, and so is nothing at all.
    assert [complete(one, names, "run") for one in ("x", "", "..")] == ["x", "", ".."]
    with pytest.raises(HedgerowError) as caught:
        complete("ward", names, "run")
    assert caught.value.code is Code.BAD_PARAMETER
    assert "ward-1, ward-10" in caught.value.found
    with pytest.raises(HedgerowError, match="and 5 more"):
        complete("w", [f"w{i}" for i in range(15)], "model")
