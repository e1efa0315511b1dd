"""Options that verbs share."""

import pytest

from hedgerow.cli.formats import listed


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), ("  ", []), ("a", ["a"]), ("a, b,c ", ["a", "b", "c"]), ("a,,b", ["a", "", "b"])],
)
def test_lists(text: str, names: list[str]) -> None:
    assert listed(text) == names
