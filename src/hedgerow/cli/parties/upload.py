"""``hedgerow upload``: share a table with the servers, as an owner."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hedgerow.cli.parties.uploads import LifetimeOption, terms_text
from hedgerow.cli.printing import (
    HERE,
    DelimiterOption,
    EncodingOption,
    FolderArgument,
    Format,
    FormatOption,
    progress_bar,
)
from hedgerow.cli.sources import SqlOption, SqlTimeoutOption, TableArgument, source_of
from hedgerow.errors import Code

if TYPE_CHECKING:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.uploading import Receipt
    from hedgerow.tables import SqlQuery


class IdType(StrEnum):
    """What ids are."""

    text = "text"
    number = "number"


def upload(
    table: TableArgument,
    folder: FolderArgument = HERE,
    *,
    population: Annotated[str, typer.Option(help="whose account is charged")],
    here: Annotated[
        bool, typer.Option("--here", help="the table stays with this party, and runs read it")
    ] = False,
    domain: Annotated[Path | None, typer.Option(help="public domain of the table (TOML)")] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="of this upload, never used before")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(help="public number of slots; the domain's capacity by default")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="column of the target, if not named as in the domain")
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(help="column of ids, where owners hold columns: they are joined by it"),
    ] = None,
    align_key: Annotated[
        Path | None, typer.Option(help="key file of these owners; made by `hedgerow align-key`")
    ] = None,
    id_type: Annotated[
        IdType, typer.Option(help="what these owners say their ids are; it is public")
    ] = IdType.text,
    lifetime_epsilon: LifetimeOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
    sql: SqlOption = None,
    sql_timeout: SqlTimeoutOption = None,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: FormatOption = Format.text,
) -> None:
    """Encode a table, cut it into shares and send each server its part; no row leaves.

    With --here nothing is sent at all: the file stays where it is, and this party reads it, or asks
    the database, in runs whose protocol lets rows stay with their owners; a query has 600 seconds
    then, unless --sql-timeout gives it others.
    """
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.roles.uploading import share_upload
    from hedgerow.tables import Domain, TextFormat

    config, rows = PartyConfig.load(folder), source_of(table, sql, sql_timeout)
    if here:
        _keep(config, rows, population, ids, domain, format)
        return
    if domain is None or id is None:
        missing = [f"--{n}" for n, x in {"domain": domain, "id": id}.items() if x is None]
        raise Code.BAD_PARAMETER.error(
            expected="--domain and --id of an upload, or --here",
            found=f"no {' and no '.join(missing)}",
        )
    public = Domain.from_toml(domain)
    with progress_bar(quiet or format is Format.json) as show:
        receipt = share_upload(
            config,
            rows,
            public,
            id=id,
            population=population,
            slots=slots,
            target=target,
            ids=ids,
            align_key=align_key,
            id_type=id_type.value,
            text=TextFormat(delimiter, encoding),
            lifetime_epsilon=lifetime_epsilon,
            # Before the first part is through nobody knows how long it takes.
            progress=lambda stage, done, of: show(stage, done, of if done else 0),
        )
    _print(receipt, [server.name for server in config.servers], format)


def _keep(
    config: PartyConfig,
    table: Path | SqlQuery,
    population: str,
    ids: str | None,
    domain: Path | None,
    format: Format,
) -> None:
    from hedgerow.parties.store.own_tables import OwnTable, keep_own_table

    place = None if domain is None else domain.resolve()
    kept = keep_own_table(config.state, OwnTable(population, table, ids or "", place))
    path, columns = kept.path, kept.columns
    if format is Format.json:
        about = {"population": population, "table": str(path), "columns": list(columns)}
        print(json.dumps({"ok": True, **about}))
        return
    print(f"{path} stays here, with {len(columns)} columns: {', '.join(columns)}")
    print(f"Runs of jobs on {population} read it; what they cost is charged to {population}.")


def align_key(
    path: Annotated[Path, typer.Argument(help="file to make")],
    format: FormatOption = Format.text,
) -> None:
    """Make a key with which owners of columns hide their ids from servers that join records."""
    from hedgerow.parties.roles.uploading import make_align_key

    make_align_key(path)
    if format is Format.json:
        print(json.dumps({"ok": True, "file": str(path)}))
        return
    print(f"{path}: hand it to the other owners of columns of this table, and to no server.")
    print("It does for every version of their tables.")


def _print(receipt: Receipt, servers: list[str], format: Format) -> None:
    manifest = receipt.manifest
    if format is Format.json:
        cost = {"sent": receipt.sent, "seconds": round(receipt.seconds, 3)}
        terms = json.loads(receipt.terms.to_json())
        told = {**manifest.summary(), **cost, "servers": servers, "terms": terms}
        print(json.dumps({"ok": True, **told}))
        return
    print(
        f"{manifest.id}: {manifest.rows:,} slots of {manifest.planes} bits, "
        f"{receipt.sent / 1e6:,.1f} MB to {', '.join(servers)} in {receipt.seconds:.1f} s"
    )
    target = manifest.domain.target
    print(
        f"columns: {', '.join(manifest.domain.names)}; target: {target.name if target else 'none'}"
    )
    print(f"Everything that is computed from it is charged to {manifest.population}.")
    print(f"The servers hold to policy.toml of this owner. {terms_text(receipt.terms)}.")
