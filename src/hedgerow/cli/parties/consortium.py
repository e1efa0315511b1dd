"""``hedgerow consortium`` and ``hedgerow keys``: who takes part, and how they know each other."""

from __future__ import annotations

import json
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import (
    HERE,
    FolderArgument,
    Format,
    FormatOption,
    parse_names,
    print_line,
    print_table,
)
from hedgerow.errors import Code, HedgerowError

if TYPE_CHECKING:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import Certificate
    from hedgerow.parties.consortium.policy import Lifetime
    from hedgerow.parties.consortium.reach import Finding

app = typer.Typer(
    help="Found a consortium, exchange certificates, check the members.", no_args_is_help=True
)
_PAUSE = 0.5
_PRINT_WIDTH = 23
_MADE = """\
Send this certificate to whoever collects them, or to the members that README.txt names.
The key, keys/party.key, never leaves this machine."""
_RENEWED = """\
Send it to the members, who add it without a telephone call: the old key has signed it. When they
have, run `hedgerow keys --switch`. Until then the old certificate is in use."""
_SWITCHED = """\
It is in use now. A daemon that is running takes it at the next reload (SIGHUP) or start."""
NOT_READY = 1
"""Exit code of a check that found problems."""


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="of the consortium")],
    owners: Annotated[str, typer.Option(help="names of the owners of tables: x,y")] = "",
    servers: Annotated[
        str,
        typer.Option(
            help="names of the three servers: a,b,c; none beside a coordinator, sites or peers"
        ),
    ] = "",
    analysts: Annotated[str, typer.Option(help="names of those who may ask: z")] = "",
    coordinator: Annotated[
        str, typer.Option(help="name of who carries top-down runs between the owners")
    ] = "",
    sites: Annotated[
        str, typer.Option(help="names of sites that hold columns of the same records: u,v")
    ] = "",
    peers: Annotated[
        str, typer.Option(help="names of peers that hold columns, and need no servers: u,v,w")
    ] = "",
    hosts: Annotated[
        str,
        typer.Option(help="of servers, coordinator, sites, peers: x,y:7610; without, this machine"),
    ] = "",
    listen: Annotated[
        str, typer.Option(help="where they take calls, if not at their hosts: 0.0.0.0")
    ] = "",
    first_port: Annotated[int, typer.Option(help="the servers use ports from here on")] = 7600,
    populations: Annotated[
        str,
        typer.Option(help="lifetime epsilon, and delta, by population: patients=3,staff=1:1e-7"),
    ] = "",
    policy: Annotated[
        list[str] | None,
        typer.Option(help="a line of every policy.toml: allow_exact=true; may be repeated"),
    ] = None,
    timeout: Annotated[
        list[str] | None,
        typer.Option(help="seconds in every party.toml: step=120; may be repeated"),
    ] = None,
    study: Annotated[
        bool,
        typer.Option("--study", help="make all keys here, too, and exchange all certificates"),
    ] = False,
    into: Annotated[Path, typer.Option(help="folder to write into")] = HERE,
    format: FormatOption = Format.text,
) -> None:
    """Write one folder per party, each with commented files for its operator."""
    from hedgerow.parties.consortium.config import Timeouts
    from hedgerow.parties.consortium.founding import found_consortium, list_members
    from hedgerow.parties.consortium.members import introduce_all

    members = list_members(
        parse_names(servers),
        parse_names(owners),
        parse_names(analysts),
        coordinator=coordinator,
        sites=parse_names(sites),
        peers=parse_names(peers),
        hosts=parse_names(hosts),
        first_port=first_port,
    )
    made = found_consortium(
        into,
        name,
        members,
        _lifetimes(populations),
        policy=_settings(policy or [], "policy"),
        timeouts=Timeouts.model_validate(_settings(timeout or [], "timeout")),
        listen=listen,
        study=study,
    )
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
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="also copy the certificate here: a file, or into a folder"
        ),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="make the next ones, beside those that are in use")
    ] = False,
    switch: Annotated[
        bool, typer.Option("--switch", help="use the next ones, which the members have added")
    ] = False,
    unasked: Annotated[
        bool, typer.Option("--unasked", help="switch without trying the next ones at the others")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Make this party's key and certificate, or renew them; a key in use is not replaced by it."""
    from hedgerow.net.certificates import DAYS
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import make_keys

    if (renew and switch) or (unasked and not switch):
        raise Code.BAD_PARAMETER.error(
            expected="--renew, later --switch, perhaps with --unasked", found="another combination"
        )
    config = PartyConfig.load(folder)
    if out is not None:
        out = _new_file(out / f"{config.name}.pem" if out.is_dir() else out)
    path, time = config.identity.certificate, DAYS if days is None else days
    if renew or switch:
        # They ask the other members, and load what calls them.
        from hedgerow.parties.consortium.renewal import renew_keys, switch_keys
    if renew:
        made, path, advice = renew_keys(config, time), config.next_identity.certificate, _RENEWED
    elif switch:
        made, advice = switch_keys(config, ask=not unasked), _SWITCHED
    else:
        made, advice = make_keys(config, time), _MADE
    if out is not None:
        out.write_text(made.pem, encoding="ascii")
    _print_certificate(made, out or path, format)
    if format is Format.text:
        print(advice)


@app.command("bundle")
def bundle(
    certificates: Annotated[Path, typer.Argument(help="folder with those of all members (PEM)")],
    folder: FolderArgument = HERE,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="file to write (JSON)")],
    format: FormatOption = Format.text,
) -> None:
    """Put the certificates of all members into one file, signed by this party."""
    from hedgerow.parties.consortium.bundle import read_certificates, sign_bundle
    from hedgerow.parties.consortium.config import PartyConfig

    config = PartyConfig.load(folder)
    out = _new_file(out)
    collected = read_certificates(config, certificates)
    out.write_text(sign_bundle(config, collected), encoding="utf-8")
    fields = _list_fields(config, collected)
    if format is Format.json:
        print(json.dumps({"ok": True, "file": str(out), **fields}))
        return
    _print_list(config, fields)
    print_line(f"{out}: send it to all members, who run `hedgerow consortium add {out.name}`.")
    print("Read them the digest by telephone.")


@app.command("add")
def add(
    certificates: Annotated[
        Path,
        typer.Argument(help="certificate of another member, or those of all: a bundle or folder"),
    ],
    folder: FolderArgument = HERE,
    replace: Annotated[
        bool, typer.Option("--replace", help="take a new one for the one that was added before")
    ] = False,
    expect: Annotated[
        str,
        typer.Option(help="digest of all of them; without, it is asked for whether it is right"),
    ] = "",
    format: FormatOption = Format.text,
) -> None:
    """Add the certificates of all other members, or of one; compare by telephone first."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import add_certificate

    config = PartyConfig.load(folder)
    if _holds_all(certificates):
        _add_all(config, certificates, replace, expect, format)
        return
    if expect:
        raise Code.BAD_PARAMETER.error(
            expected="--expect with a bundle or a folder of all certificates",
            found=f"{certificates}, which is one file",
        )
    added = add_certificate(config, certificates, replace=replace)
    _print_certificate(added, config.certificate_file(added.name), format)
    if format is Format.text and added.earlier is None:
        print(f"Compare this fingerprint with {added.name} by telephone before you go on.")


def _holds_all(path: Path) -> bool:
    """Whether there are the certificates of all members: a folder, or what looks like JSON."""
    if path.is_dir():
        return True
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def _add_all(config: PartyConfig, path: Path, replace: bool, expect: str, format: Format) -> None:
    from hedgerow.parties.consortium.bundle import check_digest, read_certificates
    from hedgerow.parties.consortium.members import add_certificates

    found = read_certificates(config, path)
    fields = _list_fields(config, found)
    if format is Format.text:
        _print_list(config, fields)
    if expect:
        check_digest(fields["digest"], expect)
    elif format is Format.json or not _confirmed():
        raise Code.OTHER_DIGEST.error(
            expected="a digest that was compared by telephone: yes, or --expect DIGEST",
            found="no confirmation",
        )
    others = [one for name, one in found.items() if name != config.name]
    add_certificates(config, others, replace=replace)
    if format is Format.json:
        print(json.dumps({"ok": True, "added": [one.name for one in others], **fields}))
    else:
        print(f"{config.name} knows {len(others)} other members.")


def _confirmed() -> bool:
    try:
        return typer.confirm("Do the other members read you the same digest by telephone?")
    except typer.Abort:
        # Nobody is there to answer.
        return False


@app.command("check")
def check(
    folder: FolderArgument = HERE,
    wait: Annotated[
        float, typer.Option(help="seconds in which what is not well yet may become so")
    ] = 0.0,
    own: Annotated[
        bool, typer.Option("--own", help="look at this party's own daemon alone, and at its keys")
    ] = False,
    format: FormatOption = Format.text,
) -> None:
    """Check certificates, addresses, versions and clocks; print the fix for each failure."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.reach import check_consortium, check_own

    config = PartyConfig.load(folder)
    until = time.monotonic() + wait
    while True:
        findings = [check_own(config)] if own else check_consortium(config)
        ready = not any(finding.problems for finding in findings)
        if ready or time.monotonic() >= until:
            break
        time.sleep(_PAUSE)
    if format is Format.json:
        rows = [finding.to_dict() for finding in findings]
        fields = {"consortium": config.consortium, "digest": _digest(config)}
        print(json.dumps({"ok": ready, **fields, "rows": rows}))
    else:
        _print_findings(findings, config.name)
        if digest := _digest(config):
            print_line(f"digest of all certificates: {digest}")
    raise typer.Exit(0 if ready else NOT_READY)


def _digest(config: PartyConfig) -> str | None:
    """Return the digest that members compare, if the certificates of all of them are here."""
    from hedgerow.parties.consortium.bundle import certificates_digest
    from hedgerow.parties.consortium.members import Certificate

    try:
        known = {member.name: Certificate.of(config, member.name) for member in config.members}
    except HedgerowError:
        return None
    return certificates_digest(config, known)


def _lifetimes(text: str) -> dict[str, Lifetime]:
    from hedgerow.parties.consortium.policy import LIFETIME_DELTA, Lifetime

    found: dict[str, Lifetime] = {}
    for part in parse_names(text):
        name, _, value = part.partition("=")
        epsilon, _, delta = value.partition(":")
        try:
            if name in found:
                raise ValueError
            given = float(delta) if delta else LIFETIME_DELTA
            found[name] = Lifetime(epsilon=float(epsilon), delta=given)
        except ValueError:
            raise Code.BAD_PARAMETER.error(
                expected="--populations such as patients=3,staff=1:1e-7, each once",
                found=repr(part),
            ) from None
    return found


def _settings(texts: list[str], option: str) -> dict[str, Any]:
    """Read lines of a file as they stand there; names may do without brackets and quotes."""
    found: dict[str, Any] = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        try:
            if not sign or key in found or key == "populations":
                raise ValueError
            listed = key == "approvers" or key.startswith("allowed_")
            names = listed and not value.startswith("[")
            read = {key: parse_names(value)} if names else tomllib.loads(f"{key} = {value}")
            ((key, found[key]),) = read.items()
        except ValueError:
            raise Code.BAD_PARAMETER.error(
                expected=f"--{option} NAME=VALUE as in the file, each once; populations have an "
                "option of their own",
                found=repr(text),
            ) from None
    return found


def _new_file(path: Path) -> Path:
    """Return a path that is free; H902 if it is not."""
    if path.exists():
        raise Code.FILE_EXISTS.error(found=str(path))
    return path


def _list_fields(config: PartyConfig, certificates: dict[str, Certificate]) -> dict[str, Any]:
    """Return names, roles and fingerprints of all members, and the digest of the list."""
    from hedgerow.net.certificates import readable
    from hedgerow.parties.consortium.bundle import certificates_digest

    rows = [
        {
            "member": name,
            "role": config.member(name).role,
            "fingerprint": readable(one.fingerprint),
            "expires": one.ends.isoformat(),
        }
        for name, one in certificates.items()
    ]
    return {"digest": certificates_digest(config, certificates), "rows": rows}


def _print_list(config: PartyConfig, fields: dict[str, Any]) -> None:
    # A fingerprint that is cut short cannot be compared.
    table = Table("member", "role", "until", show_lines=True)
    table.add_column("fingerprint", no_wrap=True, min_width=_PRINT_WIDTH)
    for row in fields["rows"]:
        lines = "\n".join(_in_lines(row["fingerprint"]))
        table.add_row(row["member"], row["role"], row["expires"][:10], lines)
    # The bytes :AB: of a fingerprint are no picture.
    Console(emoji=False).print(table)
    print_line(f"digest of all certificates of {config.consortium}:\n  {fields['digest']}")


def _in_lines(print_: str) -> list[str]:
    """Cut a fingerprint into lines of eight bytes."""
    return [print_[i : i + 24].rstrip(":") for i in range(0, len(print_), 24)]


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
    table.add_column("certificate", no_wrap=True, min_width=_PRINT_WIDTH)
    table.add_column("server")
    for finding in findings:
        member, known = finding.member, finding.certificate
        lines = ["missing"]
        if known is not None:
            print_ = readable(known.fingerprint)
            lines = [f"until {known.ends:%Y-%m-%d}"]
            lines += _in_lines(print_)
        mark = "[red]✗[/]" if finding.problems else "[green]✓[/]"
        who = f"{mark} {escape(member.name)}\n{member.role}{', this party' * (member.name == me)}"
        table.add_row(who, "\n".join(lines), escape(_server_text(finding)))
    print_table(table)
    for finding in findings:
        for problem in finding.problems:
            print_line(f"{finding.member.name}: {problem.found}\n  what to do: {problem.fix}")
        for warning in finding.warnings:
            print_line(f"warning: {warning.found}\n  what to do: {warning.fix}")


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
