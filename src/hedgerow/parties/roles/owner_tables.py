"""An owner's table, made ready to be shared: encoded, and placed in a public number of slots."""

from __future__ import annotations

from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.consortium.state_key import make_state_key
from hedgerow.protocols.sharing.integrate import in_common_slots
from hedgerow.protocols.sharing.uploaded import n_planes
from hedgerow.tables import Domain, Encoded, TextFormat, align, encode, pad, read_table
from hedgerow.tables.ids import keyed_digest

_ALIGNMENT = "hedgerow/align/ids/v2"


def make_align_key(path: Path) -> None:
    """Draw a key for owners of columns, into a file of mode 0600 that does not exist yet.

    The owners hand it to each other, and to nobody else. It may place many versions of a table,
    each with other records; the same records once more, under new values, want a new key.
    """
    make_state_key(path)


def check_public(domain: Domain, slots: int | None, ids: str | None, align_key: Path | None) -> int:
    """Check what needs no data; return the slots."""
    if not domain.is_public:
        raise Code.DOMAIN_READ_FROM_DATA.error(found="a domain that was read from data")
    if (ids is None) != (align_key is None):
        raise Code.BAD_PARAMETER.error(
            expected="ids and the key of the owners together, or neither",
            found=f"ids={ids!r}, align_key={align_key}",
        )
    if domain.target is not None or ids is None:
        # Refuses a domain without a target where an owner holds whole records.
        n_planes(domain, target=True)
    n_slots = domain.capacity if slots is None else slots
    if n_slots is None:
        raise Code.MISSING_CAPACITY.error(
            found="neither a number of slots nor a capacity in the domain", fix="pass --slots"
        )
    if n_slots < 1:
        raise Code.BAD_PARAMETER.error(expected="at least one slot", found=f"slots={n_slots}")
    return n_slots


def encoded_part(
    path: Path,
    domain: Domain,
    target: str | None,
    ids: str | None,
    text: TextFormat | None = None,
) -> Encoded:
    """Read a table and encode it; with `ids`, as many columns of the domain as it has.

    `target`, `ids`: columns; see `hedgerow.parties.roles.uploading.share_upload`.
    Raises as `hedgerow.tables.encode`, with rows and values: for the owner's eyes alone.
    """
    table = read_table(path, domain=domain, text=text or TextFormat())
    label = target or (domain.target.name if domain.target is not None else None)
    if ids is None:
        return encode(table, domain, label)
    names = [name for name in domain.names if name in table.column_names]
    has_target = target is not None or label in table.column_names
    if not names:
        raise Code.MISSING_COLUMN.error(
            expected="a column of the domain in the table", found=f"none in {path.name}"
        )
    part = domain.select(names, target=has_target)
    return encode(table, part, label if has_target else None, ids=ids)


def placed(encoded: Encoded, n_slots: int, key: bytes | None) -> tuple[Encoded, str]:
    """Place the records in slots; return the keyed hash of their ids, too, where there are some."""
    if key is None:
        return pad(encoded, n_slots), ""
    (ordered,) = align([encoded])
    assert ordered.ids is not None
    alignment = keyed_digest(key, _ALIGNMENT, n_slots, ordered.ids).hex()
    return in_common_slots(ordered, n_slots, key), alignment
