"""What `help` says of an estimator's parameters, each of which is described where it is declared.

The options of a protocol have the values, the default and a sentence of every parameter that is
one. Under ``Parameters`` the docstring of a class has the parameters that are none, and what is to
be said of an option beside its sentence; classes that inherit from it need not repeat that.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

from hedgerow.protocols.contract import Option

_HEAD = "Parameters\n----------\n"
_SECTION = re.compile(r"^\w+\n-+$", re.M)
_ENTRY = re.compile(r"^(\w+)(?: : (.+))?\n((?:    .+\n)+)", re.M)
_WIDTH = 96


class Described:
    """The docstring of an estimator, put together when it is read: schemas of options take time."""

    def __init__(self, estimator: Any) -> None:
        self.own = inspect.cleandoc(estimator.__doc__)

    def __get__(self, instance: object, estimator: type[Any]) -> str:
        about, rest = _parts(self.own)[::2]
        options = {one.parameter: one for one in estimator._options_type.reference()}
        written: dict[str, tuple[str, str]] = {}
        for base in reversed(estimator.__mro__):
            doc = vars(base).get("__doc__") or ""
            text = doc.own if isinstance(doc, Described) else inspect.cleandoc(doc)
            entries = _ENTRY.findall(_parts(text)[1])
            written |= {name: (values, said) for name, values, said in entries}
        made = [
            _entry(parameter, options.get(name), *written.get(name, ("", "")))
            for name, parameter in inspect.signature(estimator).parameters.items()
        ]
        return "\n".join([about, "", _HEAD + "\n".join(made), "", rest]).rstrip() + "\n"


def _parts(text: str) -> tuple[str, str, str]:
    """Divide a docstring into what it is about, the entries of parameters, and other sections."""
    about, _, entries = text.partition(_HEAD)
    other = _SECTION.search(entries or about)
    at = len(entries or about) if other is None else other.start()
    if not entries:
        return about[:at].rstrip(), "", about[at:]
    return about.rstrip(), entries[:at].rstrip() + "\n", entries[at:]


def _entry(parameter: inspect.Parameter, option: Option | None, values: str, said: str) -> str:
    texts = " ".join(said.split())
    if option is not None:
        values, texts = option.values, f"{option.description} {texts}"
    default = "" if parameter.default is None else f", default={parameter.default!r}"
    text = textwrap.fill(
        texts.strip(),
        _WIDTH,
        initial_indent="    ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
    return f"{parameter.name} : {values}{default}\n{text}"
