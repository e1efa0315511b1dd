"""A numbered error as somebody at a shell reads it: advice in flags and files, not in Python."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape

from hedgerow.errors import Code, HedgerowError

# Estimators know their parameters by other names than the verbs that call them.
_FLAGS = {
    "fit": {
        "epsilon": "--epsilon",
        "delta": "--delta",
        "n_estimators": "--trees",
        "max_depth": "--depth",
        "max_leaves": "--leaves",
        "account": "--account",
        "random_state": "--seed",
        "domain": "--domain",
    },
    "account": {"epsilon": "--epsilon", "delta": "--delta", "fit_delta": "--fit-delta"},
    "upload": {"slots": "--slots", "ids": "--ids", "align_key": "--align-key"},
}
_FOR_SHELLS = re.compile(r"--[a-z]|`hedgerow |\bhedgerow [a-z]")
# These read tables that a file of the party names, and take no flags for them.
_FIXED_TEXT = {
    Code.OTHER_DELIMITER: "write the file with commas between the cells",
    Code.OTHER_ENCODING: "write the file in UTF-8",
}
_WITH_FIXED_TEXT = ("site", "topdown")
_TO_TOML = "`Domain.to_toml()` of any domain shows the format"
_DRAFT = "`hedgerow domain suggest TABLE` shows the format"


class Advice(NamedTuple):
    """The parts of an error."""

    expected: str
    found: str
    fix: str


def advice(error: HedgerowError, verb: str | None) -> Advice:
    """Return the parts of an error in the words of a verb.

    An error that speaks of flags or verbs already is left as it is. Otherwise the text for shells,
    where its number has one, takes the place of the advice, and parameters of estimators become
    flags of the verb.
    """
    fix, shell = error.fix, error.code.spec.shell
    if verb in _WITH_FIXED_TEXT:
        fix = _FIXED_TEXT.get(error.code, fix)
    if shell and not _FOR_SHELLS.search(fix):
        fix = shell
    texts = [text.replace(_TO_TOML, _DRAFT) for text in (error.expected, error.found, fix)]
    for name, flag in _FLAGS.get(verb or "", {}).items():
        # `name=value` is Python; the bare word is one too where no English word is spelled so.
        texts = [re.sub(rf"(?<![\w.-]){name}=", f"{flag} ", text) for text in texts]
        if "_" in name:
            texts = [re.sub(rf"(?<![\w.-]){name}\b", flag, text) for text in texts]
    return Advice(*texts)


def verb_of(arguments: list[str]) -> str | None:
    """Return the verb of a command line, if there is one."""
    return next((word for word in arguments[1:] if not word.startswith("-")), None)


def error_fields(error: HedgerowError, verb: str | None = None) -> dict[str, str]:
    """Return an error as a program reads it."""
    verb = verb_of(sys.argv) if verb is None else verb
    return {"error": error.code.number, **advice(error, verb)._asdict()}


def print_error(error: HedgerowError, verb: str | None = None) -> None:
    """Print an error, without a traceback, on standard error."""
    said = advice(error, verb_of(sys.argv) if verb is None else verb)
    # The bytes :AB: of a fingerprint are no picture.
    console = Console(stderr=True, emoji=False)
    console.print(f"[bold red]{error.code.number}[/] {escape(error.code.spec.title)}")
    for label, text in zip(("expected", "found", "what to do"), said, strict=True):
        console.print(f"  {label}: {text}", markup=False, highlight=False)
