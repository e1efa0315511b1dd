"""The paths of a row in the map of the house are the paths that a row takes."""

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hedgerow
from hedgerow import (
    Domain,
    HiddenTreeClassifier,
    TopDownTreeClassifier,
    VerticalID3Classifier,
)

SOURCE = Path(hedgerow.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md"
X = np.random.default_rng(0).uniform(size=(60, 3))
Y = (X[:, 0] > X[:, 1]).astype(int)


def domain() -> Domain:
    return Domain.suggest(X, Y, task="classification", capacity=60, quiet=True).confirm_public()


def hidden() -> Any:
    return HiddenTreeClassifier(10.0, domain(), max_depth=2)


def topdown() -> Any:
    return TopDownTreeClassifier(10.0, domain(), max_depth=2, method="noisy-counts")


def vertical() -> Any:
    return VerticalID3Classifier(max_bins=2, max_depth=1)


PATHS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "HiddenTreeClassifier.fit": (hidden, ("fit",)),
    "HiddenTreeClassifier.predict": (hidden, ("predict",)),
    "TopDownTreeClassifier.fit": (topdown, ("fit", "predict")),
    "VerticalID3Classifier.fit": (vertical, ("fit", "predict")),
}
"""How a path is walked, and what of it the page tells."""


def told_paths() -> dict[str, list[str]]:
    """Return the files that the page names, by path."""
    section = PAGE.read_text(encoding="utf-8").split("### The path of a row")[1].split("\n## ")[0]
    parts = re.split(r"^\*\*`([\w.]+)`\*\*", section, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"`([\w/]+\.py)`", text)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


@contextmanager
def passed_files(seen: set[str]) -> Iterator[None]:
    """Add the files of this package that are passed meanwhile, in all threads."""

    def look(frame: Any, event: str, arg: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)):
            seen.add(Path(name).relative_to(SOURCE).as_posix())

    before = sys.getprofile(), threading.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def test_all_paths_are_told() -> None:
    assert list(told_paths()) == list(PATHS)


@pytest.mark.parametrize("name", PATHS)
def test_a_row_passes_every_file_that_is_named(name: str) -> None:
    make, told = PATHS[name]
    named, model, seen = told_paths()[name], make(), set()
    assert named
    assert [file for file in named if not (SOURCE / file).exists()] == []
    for method, arguments in (("fit", (X, Y)), ("predict", (X[:3],))):
        if method in told:
            with passed_files(seen):
                getattr(model, method)(*arguments)
        else:
            getattr(model, method)(*arguments)
    assert [file for file in named if file not in seen] == []
