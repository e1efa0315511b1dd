"""The manual of the verbs: in which panel each stands, what it needs, and an example.

Options and what a verb does are told where it is written; here is what a newcomer asks before. The
order is that of the help pages and of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click
import typer
from typer.core import TyperGroup

from hedgerow.errors import ask_whether


class ManualEntry(NamedTuple):
    """What has to be there before the verb, and a command line that works where it is."""

    needs: str
    example: str


_PARTY = "the folder of this party, here or as the last argument"
_RUN = f"{_PARTY}, and the name of a run or its beginning"
_MODEL_FILE = "the file of a public model: of `hedgerow fit`, or of `hedgerow models fetch`"

MANUAL: dict[str, dict[str, ManualEntry]] = {
    "Make a private model of one table": {
        "domain suggest": ManualEntry(
            "a table, and somebody who knows what of it is public",
            "hedgerow domain suggest patients.csv --target readmitted --out domain.toml",
        ),
        "domain check": ManualEntry(
            "the domain and the table; what it prints is for the owner of the rows alone",
            "hedgerow domain check domain.toml patients.csv",
        ),
        "fit": ManualEntry(
            "a table, its public domain, and an epsilon that its people can live with",
            "hedgerow fit patients.csv --domain domain.toml --epsilon 1 --out readmission",
        ),
    },
    "Use a model": {
        "predict": ManualEntry(
            f"{_MODEL_FILE}, and rows with the columns of its domain",
            "hedgerow predict readmission/model.json new.csv --proba --out answers.csv",
        ),
        "show": ManualEntry(_MODEL_FILE, "hedgerow show readmission --depth 3"),
        "report": ManualEntry(
            f"{_MODEL_FILE}; or a run or a model that a party knows, and its folder",
            "hedgerow report readmission --out readmission.html",
        ),
        "export": ManualEntry(
            f"{_MODEL_FILE}; for ONNX the extra onnx",
            "hedgerow export readmission --to onnx --out readmission.onnx",
        ),
    },
    "Found a consortium, and take part": {
        "consortium new": ManualEntry(
            "names of three servers, of owners and analysts (or of sites, peers, a coordinator)",
            "hedgerow consortium new wards --servers alder,birch,cedar --owners north,south "
            "--analysts zoe --populations patients=3",
        ),
        "consortium bundle": ManualEntry(
            f"a folder with the certificates of all members, and {_PARTY}",
            "hedgerow consortium bundle collected wards/alder -o bundle.json",
        ),
        "consortium add": ManualEntry(
            f"the bundle that one member has sent, and {_PARTY}",
            "hedgerow consortium add bundle.json wards/north",
        ),
        "consortium check": ManualEntry(
            f"{_PARTY}, with all certificates; the others should serve",
            "hedgerow consortium check wards/zoe --wait 60",
        ),
        "keys": ManualEntry(_PARTY, "hedgerow keys wards/north"),
        "serve": ManualEntry(
            f"{_PARTY}, with all certificates and a policy.toml that was read",
            "hedgerow serve wards/alder",
        ),
        "upload": ManualEntry(
            "a table, its public domain, and the folder of an owner; its servers have to serve",
            "hedgerow upload north.csv wards/north --domain domain.toml --id north-1 "
            "--population patients",
        ),
        "uploads list": ManualEntry("the folder of an owner", "hedgerow uploads list wards/north"),
        "uploads withdraw": ManualEntry(
            "the folder of an owner, and the id of one of its uploads",
            "hedgerow uploads withdraw north-1 wards/north",
        ),
        "uploads terms": ManualEntry(
            "the folder of an owner, with a policy.toml that has changed",
            "hedgerow uploads terms patients wards/north",
        ),
        "align-key": ManualEntry(
            "nothing; the file goes to all owners of columns, and to no server",
            "hedgerow align-key patients.key",
        ),
    },
    "Train and ask with others": {
        "plan": ManualEntry(
            "a job file; with the folder of a party its policy is asked as well",
            "hedgerow plan job.toml wards/north",
        ),
        "estimate": ManualEntry(
            "a job file; what the network between the parties can do",
            "hedgerow estimate job.toml --latency 20 --bandwidth 100",
        ),
        "train": ManualEntry(
            f"a job file, the same at all parties, and {_PARTY}",
            "hedgerow train job.toml wards/north",
        ),
        "runs list": ManualEntry(_PARTY, "hedgerow runs list wards/north"),
        "runs show": ManualEntry(_RUN, "hedgerow runs show readmission-0 wards/north --wait"),
        "runs stop": ManualEntry(_RUN, "hedgerow runs stop readmission-0 wards/north"),
        "runs resume": ManualEntry(_RUN, "hedgerow runs resume readmission-0 wards/north"),
        "runs prepare": ManualEntry(
            "the folder of a peer, and a run of peers that waits",
            "hedgerow runs prepare tree-0 wards/ash",
        ),
        "runs approve": ManualEntry(
            "the folder of a party whose policy names approvers, and a run that waits for it",
            "hedgerow runs approve readmission-0 wards/north --by ada",
        ),
        "models list": ManualEntry(_PARTY, "hedgerow models list wards/zoe"),
        "models show": ManualEntry(
            f"{_PARTY}, and the name of a model or its beginning",
            "hedgerow models show readmission-1 wards/zoe",
        ),
        "models fetch": ManualEntry(
            f"{_PARTY}, and a model that was published, or that the peers of this party see",
            "hedgerow models fetch readmission-1 wards/zoe --out model.json",
        ),
        "query": ManualEntry(
            "a trained model, rows with the columns of its domain, and the folder of an analyst "
            "(or ids, and that of a site or peer)",
            "hedgerow query readmission-1 rows.csv wards/zoe",
        ),
        "evaluate": ManualEntry(
            "a hidden model of classes, uploads that it was not trained on, and a party's folder",
            "hedgerow evaluate readmission-1 wards/zoe --table north-2 --epsilon 1",
        ),
    },
    "Know what it costs and gives away": {
        "ledger": ManualEntry(_MODEL_FILE, "hedgerow ledger readmission"),
        "account new": ManualEntry(
            "nothing; epsilon is what all fits on the same people may cost together",
            "hedgerow account new ward.json --epsilon 3 --delta 1e-6",
        ),
        "account show": ManualEntry(
            "the file of an account, or the folder of a party that has rows or shares",
            "hedgerow account show ward.json",
        ),
        "trail verify": ManualEntry(_PARTY, "hedgerow trail verify wards/north"),
        "trail show": ManualEntry(_PARTY, "hedgerow trail show wards/north --last 50"),
        "trail forget": ManualEntry(
            f"{_PARTY}, and a telephone call with a party that has lost its state",
            "hedgerow trail forget birch wards/alder",
        ),
        "audit": ManualEntry(
            "nothing but time: all targets take some minutes",
            "hedgerow audit noisy-max@1 --details",
        ),
    },
    "Find help": {
        "doctor": ManualEntry("nothing, or the folder of a party", "hedgerow doctor wards/north"),
        "errors": ManualEntry("nothing, or the number that was printed", "hedgerow errors H201"),
        "papers": ManualEntry(
            "nothing, or a word of what is looked for", "hedgerow papers boosting"
        ),
        "version": ManualEntry("nothing", "hedgerow version"),
    },
}


class Group(TyperGroup):
    """Verbs of a group; one that is none of them is met with the one that is like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; the libraries each have a question of their own, in some versions."""
        name = args[0]
        unknown = self.get_command(ctx, name) is None and not name.startswith("-")
        if unknown and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{ask_whether(name, self.commands)}.")
        return super().resolve_command(ctx, args)


class Verbs(Group):
    """Verbs in the order of the manual."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, those that the manual does not have last."""
        order = list(dict.fromkeys(name.split()[0] for name, _, _ in entries()))
        listed = super().list_commands(ctx)
        return sorted(listed, key=lambda one: order.index(one) if one in order else len(order))


def entries() -> Iterator[tuple[str, str, ManualEntry]]:
    """Yield each verb, its panel, and what the manual says about it."""
    for panel, listed in MANUAL.items():
        for name, entry in listed.items():
            yield name, panel, entry


def describe(app: typer.Typer, inside: str = "") -> None:
    """Put every verb of a program into its panel, and add what it needs and its example."""
    said = {name: (panel, entry) for name, panel, entry in entries()}
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        panel, entry = said.get(f"{inside} {name}".strip(), (None, None))
        if entry is None:
            continue
        # Two newlines are one in an epilogue of typer's.
        command.epilog = f"Needs {entry.needs}.\n\nExample: {entry.example}"
        if not inside:
            command.rich_help_panel = panel
    for group in app.registered_groups:
        assert group.typer_instance is not None
        panels = (panel for name, (panel, _) in said.items() if name.split()[0] == group.name)
        group.rich_help_panel = next(panels, None)
        group.cls = Group
        describe(group.typer_instance, group.name or "")
