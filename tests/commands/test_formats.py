"""Options that verbs share."""

import pytest

from hedgerow.commands.formats import listed


@pytest.mark.parametrize(
    ("text", "names"),
    [("", []), ("  ", []), ("a", ["a"]), ("a, b,c ", ["a", "b", "c"]), ("a,,b", ["a", "", "b"])],
)
def test_lists(text: str, names: list[str]) -> None:
    assert listed(text) == names
