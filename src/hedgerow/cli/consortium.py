"""``hedgerow consortium`` and ``hedgerow keys``: who takes part, and how they know each other."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import HERE, FolderArgument, Format, FormatOption, parse_names
from hedgerow.errors import Code

if TYPE_CHECKING:
    from hedgerow.parties.consortium.members import Certificate
    from hedgerow.parties.consortium.reach import Finding

app = typer.Typer(
    help="Found a consortium, exchange certificates, check the members.", no_args_is_help=True
)
_PAUSE = 0.5
NOT_READY = 1
"""Exit code of a check that found problems."""


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="of the consortium")],
    owners: Annotated[str, typer.Option(help="names of the owners of tables: x,y")] = "",
    servers: Annotated[
        str,
        typer.Option(help="names of the three servers: a,b,c; none beside a coordinator or sites"),
    ] = "",
    analysts: Annotated[str, typer.Option(help="names of those who may ask: z")] = "",
    coordinator: Annotated[
        str, typer.Option(help="name of who carries top-down runs between the owners")
    ] = "",
    sites: Annotated[
        str, typer.Option(help="names of sites that hold columns of the same records: u,v")
    ] = "",
    hosts: Annotated[
        str,
        typer.Option(help="hosts of servers, coordinator and sites; without, this machine"),
    ] = "",
    first_port: Annotated[int, typer.Option(help="the servers use ports from here on")] = 7600,
    populations: Annotated[
        str, typer.Option(help="lifetime epsilon by population: patients=3,staff=1")
    ] = "",
    study: Annotated[
        bool,
        typer.Option("--study", help="make all keys here, too, and exchange all certificates"),
    ] = False,
    into: Annotated[Path, typer.Option(help="folder to write into")] = HERE,
    format: FormatOption = Format.text,
) -> None:
    """Write one folder per party, each with commented files for its operator."""
    from hedgerow.parties.consortium.founding import found_consortium, list_members
    from hedgerow.parties.consortium.members import introduce_all

    members = list_members(
        parse_names(servers),
        parse_names(owners),
        parse_names(analysts),
        coordinator=coordinator,
        sites=parse_names(sites),
        hosts=parse_names(hosts),
        first_port=first_port,
    )
    made = found_consortium(into, name, members, _epsilons(populations))
    if study:
        introduce_all(made)
    if format is Format.json:
        folders = {member.name: str(path) for member, path in zip(members, made, strict=True)}
        print(json.dumps({"ok": True, "consortium": name, "folders": folders}))
        return
    for member, path in zip(members, made, strict=True):
        print(f"{path}  ({member.role})")
    if study:
        print("For study: the keys of all parties are on this machine, and know each other.")
        return
    print("Give each folder to its operator, who goes on with README.txt. It holds no secrets yet.")


def keys(
    folder: FolderArgument = HERE,
    days: Annotated[
        int | None, typer.Option(help="for which the certificate is valid; 3650 by default")
    ] = None,
    format: FormatOption = Format.text,
) -> None:
    """Make this party's key and certificate; an existing key is not replaced."""
    from hedgerow.net.certificates import DAYS
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import make_keys

    config = PartyConfig.load(folder)
    made = make_keys(config, DAYS if days is None else days)
    _print_certificate(made, config.identity.certificate, format)
    if format is Format.text:
        print("Send this certificate to the members that README.txt names and read them the")
        print("fingerprint by telephone. The key beside it never leaves this machine.")


@app.command("add")
def add(
    certificate: Annotated[Path, typer.Argument(help="certificate of another member (PEM)")],
    folder: FolderArgument = HERE,
    replace: Annotated[
        bool, typer.Option("--replace", help="take a new one for the one that was added before")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Add the certificate of another member; compare its fingerprint by telephone."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import add_certificate

    config = PartyConfig.load(folder)
    added = add_certificate(config, certificate, replace=replace)
    _print_certificate(added, config.certificate_file(added.name), format)
    if format is Format.text:
        print(f"Compare this fingerprint with {added.name} by telephone before you go on.")


@app.command("check")
def check(
    folder: FolderArgument = HERE,
    wait: Annotated[
        float, typer.Option(help="seconds in which what is not well yet may become so")
    ] = 0.0,
    format: FormatOption = Format.text,
) -> None:
    """Check certificates, addresses, versions and clocks; print the fix for each failure."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.reach import check_consortium

    config = PartyConfig.load(folder)
    until = time.monotonic() + wait
    while True:
        findings = check_consortium(config)
        ready = not any(finding.problems for finding in findings)
        if ready or time.monotonic() >= until:
            break
        time.sleep(_PAUSE)
    if format is Format.json:
        rows = [finding.to_dict() for finding in findings]
        print(json.dumps({"ok": ready, "consortium": config.consortium, "rows": rows}))
    else:
        _print_findings(findings, config.name)
    raise typer.Exit(0 if ready else NOT_READY)


def _epsilons(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parse_names(text):
        name, _, value = part.partition("=")
        try:
            epsilon = float(value)
        except ValueError:
            epsilon = 0.0
        if not epsilon > 0 or name in found:
            raise Code.BAD_PARAMETER.error(
                expected="populations such as patients=3,staff=1, each once", found=repr(part)
            )
        found[name] = epsilon
    return found


def _print_certificate(certificate: Certificate, path: Path, format: Format) -> None:
    from hedgerow.net.certificates import readable

    print_ = readable(certificate.fingerprint)
    if format is Format.json:
        fields = {"member": certificate.name, "file": str(path), "fingerprint": print_}
        print(json.dumps({"ok": True, **fields, "expires": certificate.ends.isoformat()}))
        return
    print(f"certificate of {certificate.name}, valid until {certificate.ends:%Y-%m-%d}: {path}")
    print(f"fingerprint {print_}")


def _print_findings(findings: list[Finding], me: str) -> None:
    from hedgerow.net.certificates import readable

    table = Table("member", show_lines=True)
    # A fingerprint that is cut short cannot be compared.
    table.add_column("certificate", no_wrap=True, min_width=23)
    table.add_column("server")
    for finding in findings:
        member, known = finding.member, finding.certificate
        lines = ["missing" if finding.needed else "not needed here"]
        if known is not None:
            print_ = readable(known.fingerprint)
            lines = [f"until {known.ends:%Y-%m-%d}"]
            lines += [print_[i : i + 24].rstrip(":") for i in range(0, len(print_), 24)]
        mark = "[red]✗[/]" if finding.problems else "[green]✓[/]"
        who = f"{mark} {escape(member.name)}\n{member.role}{', this party' * (member.name == me)}"
        table.add_row(who, "\n".join(lines), escape(_server_text(finding)))
    # The bytes :AB: of a fingerprint are no picture.
    console = Console(emoji=False)
    console.print(table)
    for finding in findings:
        for problem in finding.problems:
            for line in (f"{finding.member.name}: {problem.found}", f"  what to do: {problem.fix}"):
                console.print(line, markup=False, highlight=False, soft_wrap=True)


def _server_text(finding: Finding) -> str:
    if finding.address is None:
        return "takes no calls"
    lines = [finding.address]
    if finding.reached is not None:
        lines.append("reached" if finding.reached else "not reached")
    if finding.version is not None:
        lines.append(f"version {finding.version}")
    if finding.clock is not None:
        lines.append(f"clock {finding.clock:+.1f} s")
    return "\n".join(lines)
