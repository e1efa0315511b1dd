"""``hedgerow uploads``: what an owner allows on the tables that it has shared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.printing import HERE, FolderArgument, Format, FormatOption

if TYPE_CHECKING:
    from hedgerow.parties.consortium.policy import OwnerTerms

app = typer.Typer(
    help="Look after the tables that were shared with the servers.", no_args_is_help=True
)
LifetimeOption = Annotated[
    float | None,
    typer.Option(
        help="what jobs of the servers may cost the population in all; inf: all that is left"
    ),
]


@app.command("terms")
def terms(
    population: Annotated[str, typer.Argument(help="whose account is charged")],
    folder: FolderArgument = HERE,
    lifetime_epsilon: LifetimeOption = None,
    format: FormatOption = Format.text,
) -> None:
    """Tell the servers what policy.toml of this owner allows now, on all its uploads.

    It counts for every job that begins afterwards, whoever has posted it.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.uploading import renew_terms

    config = PartyConfig.load(folder)
    sent = renew_terms(config, population, lifetime_epsilon)
    if format is Format.json:
        print(json.dumps({"ok": True, **json.loads(sent.to_json())}))
        return
    print(terms_text(sent) or f"{population}: no more jobs")
    print(f"{', '.join(server.name for server in config.servers)} hold to it from now on.")


def terms_text(terms: OwnerTerms) -> str:
    """Say what servers may spend of the population that terms are about; nothing if nothing."""
    return "; ".join(
        f"{population}: jobs of at most epsilon {terms.largest_epsilon_per_job:g} each, and "
        f"{lifetime.epsilon:.6g} with delta {lifetime.delta:.3g} in all"
        for population, lifetime in terms.populations.items()
    )
