"""From a draft that was read from data to a public domain: what its owner confirms, by column.

A fact is public when somebody says so, by name: at a terminal one column after the other, in a
script with ``--public``. What nobody has confirmed keeps the whole draft from being used, and the
file says which facts these are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import print_line
from hedgerow.errors import Code, HedgerowError
from hedgerow.tables import Attribute, Domain, Target
from hedgerow.tables.attribute import DEFAULT_BINS, format_number

if TYPE_CHECKING:
    from hedgerow.tables.attribute import Category

_SHOWN = 8
_BLOCK = "[[attributes]]"


@dataclass(frozen=True)
class Draft:
    """A domain whose facts were read from rows, and the columns that somebody has confirmed.

    `typed`: those of them whose values somebody has given, in place of what was read. `bins`: of
    numeric columns whose bounds somebody gives. `moments`: columns of dates and times.
    """

    domain: Domain
    public: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()
    bins: int = DEFAULT_BINS
    moments: frozenset[str] = frozenset()

    @property
    def facts(self) -> list[Attribute | Target]:
        """All columns, the target last."""
        target = self.domain.target
        return [*self.domain.attributes, *([] if target is None else [target])]

    @property
    def unconfirmed(self) -> list[str]:
        """Columns whose facts are values of rows, as far as anybody has said."""
        return [fact.name for fact in self.facts if fact.name not in self.public]

    def without(self, name: str) -> Draft:
        """Return it without a column; H117 if none is left."""
        left = [one for one in self.domain.names if one != name]
        return replace(self, domain=self.domain.select(left))

    def confirm(self, name: str, values: str | None = None) -> Draft:
        """Return it with a column public, as it was read or with other values.

        `values`: bounds (``0:120``, also dates), or categories or classes with commas between them.
        With them nothing but the kind is left of what was read: a column has `bins` bins and one
        for missing values, whether or not any is missing.
        H104 for a column that it has not; H113, H116 or H501 for values that are none.
        """
        domain, target = self.domain, self.domain.target
        if values is not None and name in self.moments:
            _check_moments(_bounds(values), values)
        if values is not None and target is not None and name == target.name:
            label = Target.model_validate(target.model_dump() | _changed(target, values, self.bins))
            domain = domain.model_copy(update={"target": label})
        elif target is None or name != target.name:
            i = domain.index(name)
            attributes = list(domain.attributes)
            if values is not None:
                change = attributes[i].model_dump() | _changed(attributes[i], values, self.bins)
                attributes[i] = Attribute.model_validate(change)
            domain = domain.model_copy(update={"attributes": tuple(attributes)})
        typed = self.typed | {name} if values is not None else self.typed - {name}
        return replace(self, domain=domain, public=self.public | {name}, typed=typed)

    def confirm_flag(self, flag: str) -> Draft:
        """Return it after ``NAME`` or ``NAME=VALUES``; a name may have that sign in it."""
        name, values = flag, None
        if "=" in flag and flag not in {fact.name for fact in self.facts}:
            name, _, values = flag.rpartition("=")
        try:
            return self.confirm(name, values)
        except HedgerowError as error:
            # There is no file yet that the usual advice could be about.
            usual = error.fix == error.code.spec.fix
            raise error.code.error(
                expected=error.expected,
                found=f"--public {flag}: {error.found}",
                fix=f"correct --public {flag}" if usual else error.fix,
            ) from None

    def with_capacity(self, capacity: int) -> Draft:
        """Return it with a public upper bound on the number of rows; H117 if it is none."""
        data = self.domain.model_dump() | {"capacity": capacity}
        return replace(self, domain=Domain.model_validate(data))

    def to_toml(self) -> str:
        """Return the file, in which comments say what was read, typed and confirmed."""
        whole = not self.unconfirmed
        text = (self.domain.confirm_public() if whole else self.domain).to_toml()
        facts = iter(self.domain.attributes)
        lines = []
        for line in text.splitlines():
            if line == _BLOCK:
                lines.append(self._comment(next(facts)))
            elif line == "[target]" and self.domain.target is not None:
                lines.append(self._comment(self.domain.target))
            lines.append(line)
        return "\n".join([*self._head(), *lines, ""])

    def _head(self) -> list[str]:
        left = len(self.unconfirmed)
        if not left:
            head = ["# Every fact below was read from the data, or typed, and confirmed as public."]
        else:
            head = [
                f"# READ FROM THE DATA: facts of {left} of {len(self.facts)} columns are values of "
                "somebody's rows, and not public.",
                "# Private fits refuse this file. Correct each of them by what everybody may know, "
                'then set provenance = "confirmed public".',
            ]
        if self.domain.capacity is None:
            head.append("# Add a line such as capacity = 1000: a public upper bound on the rows.")
        return head

    def _comment(self, fact: Attribute | Target) -> str:
        if fact.name in self.typed:
            kind, values = _kind_and_values(fact)
            return f"# {kind}: read from the data, {values}: typed; confirmed as public"
        if fact.name in self.public:
            return f"# {_what(fact)}: read from the data, confirmed as public"
        return f"# {_what(fact)}: read from the data, not public"


def _kind_and_values(fact: Attribute | Target) -> tuple[str, str]:
    if isinstance(fact, Target):
        return "task", "bounds" if fact.classes is None else "classes"
    read = "bounds" if fact.edges is None else "bounds, edges"
    return "kind", read if fact.categories is None else "categories"


def _what(fact: Attribute | Target) -> str:
    more = "" if isinstance(fact, Target) else ", and whether values may be missing"
    return ", ".join(_kind_and_values(fact)) + more


def _values(fact: Attribute | Target) -> tuple[Category, ...] | None:
    return fact.classes if isinstance(fact, Target) else fact.categories


def _changed(fact: Attribute | Target, text: str, bins: int) -> dict[str, object]:
    # Of what was read nothing stays beside values that were not: cuts, nor whether one is missing.
    is_target, listed = isinstance(fact, Target), _values(fact)
    more: dict[str, object] = {} if is_target else {"missing": "own bin"}
    if listed is None:
        cut = {} if is_target else {"edges": None, "bins": bins}
        return more | cut | {"bounds": _bounds(text)}
    parts = [part.strip() for part in text.split(",")]
    name = "classes" if is_target else "categories"
    if not isinstance(listed[0], str):
        return more | {name: tuple(_literal(part) for part in parts)}
    if _spells_bounds(text):
        raise Code.BAD_PARAMETER.error(
            expected=f"{name} of {fact.name!r}, which was read as text",
            found=f"the bounds {text!r}",
            fix="if it is a number, correct the cells that are text, or write its domain by hand",
        )
    return more | {name: tuple(parts)}


def _bounds(text: str) -> tuple[float, float]:
    lo, sign, hi = text.partition(":")
    # Times of day have that sign in them as well.
    if "T" in text or text.count(":") > 1 or not sign:
        lo, sign, hi = text.partition("..")
    if not sign:
        raise Code.BAD_PARAMETER.error(
            expected="two bounds, such as 0:120, or 2001-01-01..2020-12-31",
            found=repr(text),
        )
    return _number(lo), _number(hi)


def _check_moments(bounds: tuple[float, float], text: str) -> None:
    """Refuse, H501, what is beyond all dates, such as milliseconds."""
    if _moments(bounds) is None:
        raise Code.BAD_PARAMETER.error(
            expected="dates, such as 2001-01-01..2020-12-31, or seconds since 1970",
            found=repr(text),
        )


def _moments(seconds: Iterable[float]) -> list[datetime] | None:
    """Return moments by their seconds since 1970; None if one is beyond all dates."""
    try:
        return [datetime.fromtimestamp(one, UTC) for one in seconds]
    except (ValueError, OverflowError, OSError):
        return None


def _spells_bounds(text: str) -> bool:
    try:
        _bounds(text)
    except HedgerowError:
        return False
    return True


def _literal(text: str) -> Category:
    try:
        value = json.loads(text.lower())
    except ValueError:
        value = None
    if not isinstance(value, bool | int | float):
        raise Code.BAD_PARAMETER.error(
            expected="numbers, or true and false, with commas between them", found=repr(text)
        )
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Code.BAD_PARAMETER.error(
            expected="a number, or a date such as 2020-12-31", found=repr(text)
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def columns_of_moments(rows: pa.Table) -> frozenset[str]:
    """Return the names of columns of dates and times."""
    return frozenset(
        one.name
        for one in rows.schema
        if pa.types.is_date(one.type) or pa.types.is_timestamp(one.type)
    )


def _values_text(fact: Attribute | Target, draft: Draft) -> str:
    """Say which values a column has, for its owner's eyes."""
    listed = _values(fact)
    if listed is not None:
        more = "" if len(listed) <= _SHOWN else f", ... ({len(listed)} in all)"
        return ", ".join(map(str, listed[:_SHOWN])) + more
    assert fact.bounds is not None
    moments = _moments(fact.bounds) if fact.name in draft.moments else None
    if moments is not None:
        ends = [moment.isoformat(sep=" ") for moment in moments]
        return " to ".join(end[:19].removesuffix(" 00:00:00") for end in ends)
    lo, hi = (format_number(bound, 6) for bound in fact.bounds)
    return f"{lo} to {hi}"


def unlisted(draft: Draft, read: Draft) -> dict[str, list[str]]:
    """Return what was read of columns and is not among the values that somebody has typed."""
    listed = {fact.name: _values(fact) or () for fact in draft.facts if fact.name in draft.typed}
    found = {
        was.name: [str(one) for one in _values(was) or () if one not in listed[was.name]]
        for was in read.facts
        if was.name in listed
    }
    return {name: values for name, values in found.items() if values}


def may_name_people(draft: Draft, rows: pa.Table) -> dict[str, str]:
    """Return the columns that look like names or ids of people, and why."""
    found = {}
    for attribute in draft.domain.attributes:
        column = rows.column(attribute.name)
        if attribute.kind == "categorical":
            if 2 * attribute.n_values > rows.num_rows:
                found[attribute.name] = f"lists {attribute.n_values} values of {rows.num_rows} rows"
        elif (
            pa.types.is_integer(column.type)
            and pc.count_distinct(column, mode="all").as_py() == rows.num_rows > 1
        ):
            found[attribute.name] = "is another whole number in every row"
    return found


def print_draft(draft: Draft, read: Draft, rows: pa.Table, console: Console) -> None:
    """Print what was read, what was typed in place of it, and what has to be confirmed."""
    table = Table(title=f"Read from {rows.num_rows:,} rows, for their owner's eyes", box=None)
    typed = ("typed in its place",) if draft.typed else ()
    for heading in ("column", "type", "missing", "was read", *typed, "to be confirmed as public"):
        table.add_column(heading, justify="left", overflow="fold")
    for was, fact in zip(read.facts, draft.facts, strict=True):
        column = rows.column(fact.name)
        # Of floats, NaN is missing as well.
        missing = pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0
        cells = [fact.name, str(column.type), f"{missing:,}", _values_text(was, read)]
        if typed:
            cells.append(_values_text(fact, draft) if fact.name in draft.typed else "")
        done = "confirmed" if fact.name in draft.public else _what(fact)
        table.add_row(*map(escape, cells), done)
    console.print(table)


def ask(draft: Draft, rows: pa.Table, people: dict[str, str], console: Console) -> Draft:
    """Ask about every column, then for the capacity; an answer that is none is asked for again."""
    console.print(
        "\nA fact is public if you would know it, and may tell it, without these rows. For each "
        "column: [bold]y[/] public as it is; [bold]x[/] leave the column out; public values in "
        "place of those that were read; or Enter: not confirmed."
    )
    for fact in draft.facts:
        is_target = isinstance(fact, Target)
        example = "0:120" if _values(fact) is None else "a,b,c"
        keys = f"y / {'' if is_target else 'x / '}{example} / Enter"
        why = f" (it {people[fact.name]}: it may name people)" if fact.name in people else ""
        while True:
            question = f"{fact.name}: {_values_text(fact, draft)}{why} [{keys}]"
            answer = typer.prompt(question, default="", show_default=False, err=True).strip()
            try:
                draft = _answered(draft, fact, answer)
                break
            except HedgerowError as error:
                print_line(f"  {error.found}; expected {error.expected}", stderr=True)
    while draft.domain.capacity is None:
        question = "capacity: a public upper bound on the number of rows [number / Enter]"
        answer = typer.prompt(question, default="", show_default=False, err=True).strip()
        if not answer:
            break
        try:
            draft = draft.with_capacity(int(answer.replace("_", "")))
        except (ValueError, HedgerowError):
            console.print("  expected a whole number of at least 1")
    return draft


def _answered(draft: Draft, fact: Attribute | Target, answer: str) -> Draft:
    if not answer:
        return draft
    if answer == "y":
        return draft.confirm(fact.name)
    if answer == "x" and isinstance(fact, Attribute):
        return draft.without(fact.name)
    return draft.confirm(fact.name, answer)
