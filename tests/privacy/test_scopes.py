"""Scopes: accepted reasons, refused ones, covering, plain data."""

import pytest
from hypothesis import given

from hedgerow.errors import Code, PrivacyError
from hedgerow.privacy.scopes import EACH, MAX_DEPTH, ROOT, By, Partition, Scope, Segment, part, step
from tests.privacy.release_strategies import NODES, SCOPES, TREES


@pytest.mark.parametrize("by", By)
def test_every_listed_reason_is_accepted_by_value(by: By) -> None:
    assert Partition("parts", by.value) == Partition("parts", by)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["equal chunks of a shuffled table", "", None, 3, "OWN COIN"])
def test_other_reasons_are_refused(by: object) -> None:
    with pytest.raises(PrivacyError, match="H206") as error:
        Partition("parts", by)  # type: ignore[arg-type]
    assert error.value.code is Code.BAD_SCOPE
    assert "fixed slot" in error.value.expected


@pytest.mark.parametrize("name", ["", "  ", "a\nb", None, 7])
def test_names_are_text(name: object) -> None:
    with pytest.raises(PrivacyError, match="H206"):
        Partition(name, By.SLOT)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="H206"):
        step(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("label", [True, 1.5, None, ""])
def test_labels_are_text_or_whole_numbers(label: object) -> None:
    assert part(NODES, 3) == part(NODES, "3")
    with pytest.raises(PrivacyError, match="H206"):
        part(NODES, label)  # type: ignore[arg-type]


def test_a_part_needs_a_partition() -> None:
    with pytest.raises(PrivacyError, match="H206"):
        part("nodes", "x")  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="H206"):
        Segment("x", "nodes")  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="H206"):
        Scope(("tree 3",))  # type: ignore[arg-type]


def test_a_scope_reads_like_a_path() -> None:
    assert str(ROOT / step("tree 3") / part(NODES, EACH)) == "tree 3 / nodes: each"
    assert str(ROOT) == "root"


def test_a_scope_is_not_too_deep_to_walk_down() -> None:
    deep = Scope((step("down"),) * MAX_DEPTH)
    assert Scope.from_list(deep.to_list()) == deep
    with pytest.raises(PrivacyError, match="H206"):
        deep / step("down")


def test_what_a_scope_covers() -> None:
    tree = ROOT / step("tree 3")
    assert tree.covers(tree / part(NODES, "x"))
    assert tree.covers(tree)
    assert not (tree / step("level 0")).covers(tree)
    assert not tree.covers(ROOT / step("tree 4") / part(NODES, "x"))
    assert (ROOT / part(NODES, EACH)).covers(ROOT / part(NODES, "x") / step("a"))
    assert not (ROOT / part(NODES, "x")).covers(ROOT / part(NODES, EACH))
    assert not (ROOT / part(NODES, EACH)).covers(ROOT / part(TREES, "x"))
    assert not (ROOT / step(EACH)).covers(ROOT / step("a"))


@given(SCOPES)
def test_plain_data_round_trip(scope: Scope) -> None:
    assert Scope.from_list(scope.to_list()) == scope


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"step": "a"},
        ["a"],
        [{}],
        [{"step": "a", "part": "b"}],
        [{"part": "x", "partition": "nodes"}],
        [{"part": "x", "partition": "nodes", "by": "order of arrival"}],
        [{"step": 3}],
    ],
)
def test_other_plain_data_is_refused(data: object) -> None:
    with pytest.raises(PrivacyError, match="H206"):
        Scope.from_list(data)
