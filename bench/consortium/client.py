"""A process of an owner or an analyst for `bench.consortium`, which can be killed.

``python -m bench.consortium.client upload|train|ask FOLDER OPTIONS``, the options as JSON. It
prints a line of JSON when it is about to speak to the servers (``begin``), one for whatever it gets
from them, and one for a numbered error, with which it ends (exit code 2).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgerow.errors import HedgerowError
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.queries.asking import Analyst
from hedgerow.parties.roles.uploading import share_upload
from hedgerow.parties.runs.client import RunClient
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.tables import Domain, read_table

Options = dict[str, Any]


def say(**line: Any) -> None:
    """Print a line."""
    print(json.dumps(line), flush=True)


def upload(config: PartyConfig, options: Options) -> None:
    """Share a table: ``table``, ``domain``, ``id``, ``population``."""
    domain = Domain.from_dict(options["domain"])
    names = {key: options[key] for key in ("id", "population")}
    say(event="begin")
    receipt = share_upload(config, Path(options["table"]), domain, **names)
    say(event="uploaded", id=receipt.manifest.id, seconds=receipt.seconds)


def train(config: PartyConfig, options: Options) -> None:
    """Post a ``job`` and watch its run."""
    job, client = ServerJob.from_toml(options["job"]), RunClient(config)
    say(event="begin")
    run = client.post(job)
    for status in client.watch(run, pause=0.1):
        error = None if status.error is None else status.error.code.number
        say(event="status", state=status.state, attempt=status.attempt, error=error)


def ask(config: PartyConfig, options: Options) -> None:
    """Ask a ``model`` about ``rows`` of a ``table``: lists of their numbers, one for a request."""
    table = read_table(Path(options["table"]))
    analyst = Analyst(config, timeout=options["timeout"])
    say(event="begin")
    known = analyst.find(options["model"])
    for number, rows in options["rows"].items():
        say(event="answer", number=number, labels=analyst.ask(known, table.take(rows)).labels)


VERBS: dict[str, Callable[[PartyConfig, Options], None]] = {
    "upload": upload,
    "train": train,
    "ask": ask,
}


def main(verb: str, folder: str, options: str) -> int:
    """Do what the command line says; return the exit code."""
    try:
        VERBS[verb](PartyConfig.load(folder), json.loads(options))
    except HedgerowError as error:
        say(event="error", error=error.code.number, found=error.found)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
