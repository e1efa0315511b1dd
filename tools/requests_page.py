"""Write the reference page of all requests; `make docs` calls it with the path.

Every verb is declared once, at the method that answers it; the page is made of these.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hedgerow.parties.evaluation.verbs import EvaluationVerbs
from hedgerow.parties.queries.answering import QueryService
from hedgerow.parties.roles.catalogue import Catalogue, ChargeVerbs
from hedgerow.parties.roles.daemon import Daemon
from hedgerow.parties.runs.verbs import RunVerbs
from hedgerow.parties.store.uploads import UploadVerbs
from hedgerow.parties.vertical.answering import HolderAnswers
from hedgerow.parties.vertical.preparing import PeerPreparations
from hedgerow.parties.wire.handlers import Verb, declared_verbs
from hedgerow.parties.wire.inbox import Inbox
from hedgerow.parties.wire.openapi import fields_schema

SERVICES: dict[str, tuple[type, ...]] = {
    "Every party": (Daemon, RunVerbs, Catalogue),
    "Who leads runs": (Inbox,),
    "A server": (UploadVerbs, QueryService, ChargeVerbs, EvaluationVerbs),
    "A site or a peer": (HolderAnswers,),
    "A peer": (PeerPreparations,),
}

HEAD = """# Requests

What parties ask each other, over the [connections of requests](wire.md#requests). This page is made
of the declarations in the code (`make docs`); every party tells its own part of it at
`/openapi.json`, with the schemas of the fields. A verb is asked as `POST /v1/<verb>`. Fields that
are not listed, or of another type, are refused ([H872](../errors/H872.md)), a name that is none
with [H851](../errors/H851.md), another role with [H871](../errors/H871.md).

**Made twice.** A connection can be lost when a request was carried out and its reply not read. Who
asks then may ask again: every verb is told by an identifier of its own what was carried out before,
or changes nothing. No request has to be remembered for that, and no clock is compared.

## What requests leave

What members make a party keep is bounded by lines of its `policy.toml` (H858); what they take while
they are answered, by limits of the service: 16 requests at once of a member, and bytes of payload
under way ([H879](../errors/H879.md)). Every request leaves a line in `state/log.jsonl`, within
`log_bytes`. `state_bytes_per_member` counts, for ever, what all requests of one member have left in
the database; each counts as 8 KiB at least.

| request | leaves, within |
|---|---|
LEAVES
All others change nothing and leave nothing.

"""


def verbs_of(*classes: type) -> dict[str, Verb]:
    """Return the verbs that classes declare."""
    return {name: verb for each in classes for name, verb in declared_verbs(each).items()}


def sections() -> Iterator[str]:
    """Yield a section for each kind of service."""
    for title, classes in SERVICES.items():
        lines = [f"## {title}", ""]
        for name, verb in verbs_of(*classes).items():
            lines += [f"### `{name}`", "", _markdown(verb.about), "", f"From: {_roles(verb)}."]
            lines += [*_fields(verb), f"Made twice: {verb.twice}", ""]
        yield "\n".join(lines)


def _roles(verb: Verb) -> str:
    return ", ".join(sorted(verb.roles)) + (
        f"; at most {verb.largest:,} bytes of payload" if verb.largest else ""
    )


def _fields(verb: Verb) -> list[str]:
    """Return the table of a verb's fields, with what they are."""
    schema = fields_schema(verb)
    if not schema.get("properties"):
        return []
    needed = schema.get("required", ())
    about = _markdown(" ".join((verb.fields.__doc__ or "").split()))
    lines = ["", f"Fields: {about[0].lower() + about[1:]}", ""]
    lines += ["| field | type | |", "|---|---|---|"]
    for name, kind in schema["properties"].items():
        inner = schema.get("$defs", {}).get(kind.get("$ref", "").rpartition("/")[2])
        kind = kind if inner is None else inner
        default = "" if name in needed else f"{kind.get('default')!r} by default"
        lines.append(f"| `{name}` | {_type(kind)} | {default} |")
    return [*lines, ""]


def _type(kind: dict[str, Any]) -> str:
    if "anyOf" in kind:
        return " or ".join(_type(each) for each in kind["anyOf"])
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if "properties" in kind:
        return "object of " + ", ".join(f"`{name}`" for name in kind["properties"])
    bounds = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
        "minItems": "at least",
        "maxItems": "at most",
        "maxLength": "at most",
        "pattern": "like",
    }
    told = [f"{word} `{kind[key]}`" for key, word in bounds.items() if key in kind]
    return ", ".join([kind.get("type", "any"), *told])


def _markdown(text: str) -> str:
    return re.sub(r"`+([^`]+)`+", r"`\1`", text)


def page() -> str:
    """Return the page."""
    every = verbs_of(*(one for classes in SERVICES.values() for one in classes))
    rows = [f"| `{name}` | {verb.leaves} |\n" for name, verb in every.items() if not reads(verb)]
    return HEAD.replace("LEAVES\n", "".join(rows) + "\n") + "\n".join(sections())


def reads(verb: Verb) -> bool:
    """Whether a request changes nothing."""
    return verb.twice == "nothing changes."


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
