"""``hedgerow account``, ``hedgerow trail``: what fits and jobs may cost, and what was charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import (
    HERE,
    NOT_ALL,
    FolderArgument,
    Format,
    FormatOption,
    numbers_of,
    print_error,
    print_line,
    print_refusals,
    print_table,
    time_text,
    warn_of_endings,
)

if TYPE_CHECKING:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.server_reports import PopulationCharges
    from hedgerow.parties.store.accounts import Balance

app = typer.Typer(
    help="Keep an account over the fits on one table, with a budget; look at a party's accounts.",
    no_args_is_help=True,
)
trail_app = typer.Typer(
    help="Look at the trail of a party: every charge, in order, chained and signed.",
    no_args_is_help=True,
)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="file to make (JSON)")],
    *,
    epsilon: Annotated[float, typer.Option(help="what all fits together may cost")],
    delta: Annotated[
        float | None, typer.Option(help="at which it holds; boosting needs one")
    ] = None,
    fit_delta: Annotated[
        float | None,
        typer.Option(help="what each fit of boosting takes of delta; by default a hundredth"),
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Make an account; every fit with --account FILE is charged to it, or refused."""
    from hedgerow.estimators.account import Account

    counted_at = Account.new(file, epsilon, delta, fit_delta).ledger.delta
    if format is Format.json:
        print(json.dumps({"ok": True, "file": str(file)}))
        return
    print_line(f"{file}: epsilon {epsilon:g} for all fits on the same people.")
    if counted_at is not None:
        print_line(
            f"Boosting is counted at delta {counted_at:g}: with `hedgerow fit --delta "
            f"{counted_at:g}` a fit costs the epsilon it says."
        )


@app.command("show")
def show(
    file: Annotated[
        Path,
        typer.Argument(help="file of the account, or folder of a party", callback=warn_of_endings),
    ],
    here: Annotated[
        bool, typer.Option("--here", help="look into an owner's folder alone, and ask no server")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Show what each fit, or each job of a party, has cost, and what is left.

    In the folder of an owner beside servers: what they have charged to its populations, and for
    whom, which is entered in this account. It ends with 1 if a server does not answer or servers
    differ. Analysts and coordinators hold no rows, and have no account (H905).
    """
    from hedgerow.estimators.account import Account
    from hedgerow.jsonfile import plain
    from hedgerow.parties.store.accounts import balances_in

    if file.is_dir():
        _check_holder(file)
        config = None if here else _owner_beside_servers(file)
        if config is None:
            _show_balances(balances_in(file), format)
        else:
            _show_charged(config, format)
        return
    account = Account(file)
    costs, spent, budget = account.costs(), account.spent(), account.ledger.budget
    charged = account.charged()
    if format is Format.json:
        epsilon = spent.epsilon if spent.private else None
        report = {
            "ok": True,
            "fits": [{**cost._asdict(), "epsilon": plain(cost.epsilon)} for cost in costs],
            "spent": {"epsilon": epsilon, "delta": spent.delta, "why": spent.why},
            "charged": {"epsilon": plain(charged.epsilon), "delta": charged.delta},
            "budget": budget and {"epsilon": budget.epsilon, "delta": budget.delta},
        }
        print(json.dumps(report))
        return
    table = Table("fit", "epsilon", "delta")
    for cost in costs:
        table.add_row(cost.fit, f"{cost.epsilon:.6g}", f"{cost.delta:.3g}")
    print_table(table)
    limit = f" of epsilon {budget.epsilon:g}, delta {budget.delta:.3g}" if budget else ""
    why = f" ({spent.why})" if spent.why else ""
    if spent.private or budget is None:
        print(f"spent: epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}{limit}{why}")
        return
    print(f"spent: epsilon {spent.epsilon:.6g}, delta {spent.delta:.3g}{why}")
    print(f"charged: epsilon {charged.epsilon:.6g}, delta {charged.delta:.3g}{limit}")


def _party_of(folder: Path) -> PartyConfig | None:
    """Return the party of a folder; None for an owner in a Flower app, which has no such file."""
    from hedgerow.parties.consortium.config import PartyConfig

    return PartyConfig.load(folder) if (folder / "party.toml").exists() else None


def _check_holder(folder: Path) -> None:
    """Refuse, H905, a party without accounts: an empty one would say that nothing was charged."""
    from hedgerow.errors import Code

    config = _party_of(folder)
    if config is not None and config.role in ("analyst", "coordinator"):
        raise Code.WRONG_ROLE.error(
            expected="a party with accounts: a server, an owner or a site",
            found=f"{config.name}, which is {config.me.kind} and holds no population",
            fix="ask an owner, or look at what one model has cost: `hedgerow models show MODEL`",
        )


def _owner_beside_servers(folder: Path) -> PartyConfig | None:
    """Return the party of a folder if it is an owner in a consortium with servers."""
    config = _party_of(folder)
    return None if config is None or config.role != "owner" or not config.servers else config


def enter_server_charges(folder: Path) -> None:
    """Enter what servers have charged in the account of an owner, and print where they differ."""
    config = _owner_beside_servers(folder)
    if config is None:
        return
    from hedgerow.parties.roles.owner_account import fetch_charges, shared_populations

    if shared_populations(config):
        for complaint in fetch_charges(config).complaints:
            print_error(complaint)


def _show_charged(config: PartyConfig, format: Format) -> None:
    """Print what the servers have charged, and the account of this owner with all of it."""
    from hedgerow.parties.roles.owner_account import fetch_charges
    from hedgerow.parties.store.accounts import balances_in

    found = fetch_charges(config)
    balances = balances_in(config.folder)
    if format is Format.json:
        told = [
            {
                "population": one.population,
                "servers": {name: account.to_dict() for name, account in one.accounts.items()},
                "differs": one.differs,
            }
            for one in found.populations
        ]
        report = {"ok": found.is_well, "accounts": _rows(balances), "charged": told}
        print(json.dumps({**report, "refused": numbers_of(found.refusals)}))
        raise typer.Exit(0 if found.is_well else NOT_ALL)
    for one in found.populations:
        _print_charged(one)
    if not found.populations and not found.refusals:
        print("The servers know no upload of this owner, and tell nothing of any account.")
    print_refusals(found.refusals)
    for complaint in found.complaints:
        print_error(complaint)
    print("\nThe account of this owner, with what servers have charged:")
    _show_balances(balances, format)
    raise typer.Exit(0 if found.is_well else NOT_ALL)


def _print_charged(one: PopulationCharges) -> None:
    """Print the charges to a population, at all servers that tell."""
    table = Table("charged", "run", "model", "posted by", "epsilon", "delta", "at")
    for charge, servers in one.lines:
        day = time_text(charge.time)
        texts = (charge.run or charge.what or charge.key, charge.model or "-", charge.by or "-")
        figures = f"{charge.epsilon:.6g}", f"{charge.delta:.3g}"
        where = "all" if len(servers) == len(one.accounts) else ", ".join(servers)
        table.add_row(day, *map(escape, texts), *figures, where)
    if one.lines:
        print_table(table)
    for name, account in one.accounts.items():
        epsilon, delta = account.spent
        limit = (
            "which its policy does not list"
            if account.epsilon is None or account.delta is None
            else f"of at most {account.epsilon:g} and {account.delta:g}"
        )
        print(
            f"{one.population} at {name}: spent epsilon {epsilon:.6g}, delta {delta:.3g}, {limit}"
        )


def _rows(balances: list[Balance]) -> list[dict[str, object]]:
    from hedgerow.jsonfile import plain

    return [
        {
            "population": one.population,
            "charges": [
                {**vars(charge), "epsilon": plain(charge.epsilon)} for charge in one.spent.charges
            ],
            "spent": {"epsilon": plain(one.spent.epsilon), "delta": one.spent.delta},
            "limit": plain(None if one.limit is None else one.limit.epsilon),
            "left": plain(one.left),
            "delta_limit": None if one.limit is None else one.limit.delta,
            "delta_left": one.delta_left,
            "promised": one.promised
            and {"epsilon": plain(one.promised[0]), "delta": one.promised[1]},
        }
        for one in balances
    ]


def _show_balances(balances: list[Balance], format: Format) -> None:
    """Print accounts of a party."""
    if format is Format.json:
        print(json.dumps({"ok": True, "accounts": _rows(balances)}))
        return
    if not balances:
        print("no accounts: policy.toml lists no population, and nothing was charged")
    for one in balances:
        if one.spent.charges:
            table = Table("charged", "for", "epsilon", "delta")
            for charge in one.spent.charges:
                day = time_text(charge.time)
                what = escape(charge.what or charge.key)
                table.add_row(day, what, f"{charge.epsilon:.6g}", f"{charge.delta:.3g}")
            print_table(table)
        for line in one.describe():
            print(f"{one.population}: {line}")


@trail_app.command("verify")
def verify_trail(folder: FolderArgument = HERE, format: FormatOption = Format.text) -> None:
    """Check every hash and signature of the trail, and that accounts are as it tells.

    The number and the hash of the last entry are for others to write down: a trail that is shorter
    later, or has another hash there, is of a state folder that was set back.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.store.database import open_store
    from hedgerow.parties.store.trail import verify

    config = PartyConfig.load(folder)
    with open_store(config.state).snapshot() as made:
        made.check_pages()
        last = verify(made.trail(), made.charges(), config.identity.pem)
    n, hash_ = (0, "") if last is None else (last.n, last.hash.hex())
    if format is Format.json:
        print(json.dumps({"ok": True, "entries": n, "hash": hash_}))
    elif last is None:
        print_line(f"The trail of {config.name} has no entries.")
    else:
        print_line(f"The trail of {config.name} verifies: {n} entries, the last of hash {hash_}.")


@trail_app.command("show")
def show_trail(
    folder: FolderArgument = HERE,
    last: Annotated[int, typer.Option(help="so many entries, the latest", min=1)] = 20,
    format: FormatOption = Format.text,
) -> None:
    """Show the latest entries of the trail; `hedgerow trail verify` checks them."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.store.database import open_store

    config = PartyConfig.load(folder)
    with open_store(config.state).snapshot() as made:
        entries = made.trail_end(last)
    if format is Format.json:
        found = [{**json.loads(entry.body), "hash": entry.hash.hex()} for entry in entries]
        print(json.dumps({"ok": True, "entries": found}))
        return
    table = Table("entry", "at", "what", "of", "hash")
    for entry in entries:
        day = time_text(entry.time)
        table.add_row(
            str(entry.n), day, escape(entry.kind), escape(entry.summary()), entry.hash.hex()[:16]
        )
    print_table(table)


@trail_app.command("forget")
def forget_trail(
    name: Annotated[str, typer.Argument(help="the other party")],
    folder: FolderArgument = HERE,
    format: FormatOption = Format.text,
) -> None:
    """Forget how long the trail of another party was, so that it may come with an older state.

    For the operator of the party in this folder to decide: the other one has forgotten what it
    was charged since. That it was forgotten here stays in this party's trail.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.store.database import open_store
    from hedgerow.parties.store.peer_trails import forget_peer

    config = PartyConfig.load(folder)
    known = forget_peer(open_store(config.state), config.member(name).name)
    if format is Format.json:
        print(json.dumps({"ok": True, "forgotten": known}))
    elif known:
        print_line(f"{config.name} has forgotten how long the trail of {name} was.")
    else:
        print_line(f"{config.name} remembers nothing of the trail of {name}.")
