"""The page on auditing shows what its examples print."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit.md"


def test_examples_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    shown = re.findall(r"^```text\n(.*?)^```", text, re.M | re.S)
    exec("\n".join(code), {"__name__": "page"})
    assert capsys.readouterr().out == "".join(shown)
