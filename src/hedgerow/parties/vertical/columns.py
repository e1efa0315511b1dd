"""What a site has by itself: its attributes, its rows and the instances it can be asked about."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.parties.vertical.job import VerticalJob
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Domain, SqlQuery, Target, encode, read_table
from hedgerow.tables.absorbing import AbsorbedRows
from hedgerow.tables.encode import read_target, rows_within
from hedgerow.tables.frame import view
from hedgerow.tables.ids import asked_ids, read_ids


@dataclass(frozen=True)
class OwnColumns:
    """The columns of one site, as it alone knows them.

    Without a domain at a site that holds the class alone; with a target at one that holds it.
    """

    domain: Domain | None
    target: Target | None

    @classmethod
    def load(cls, path: Path, job: VerticalJob, index: int) -> OwnColumns:
        """Read the domain file of a site and compare it with the job.

        A file with a target alone is for a site without attributes. H114 for the file, H755 if the
        class is where the job does not have it, or has other values, H202 for noise under a domain
        that was read from data.
        """
        own = cls._read(path)
        holds, name = job.protocol_job().knows_class(index), job.sites[index]
        if (own.target is not None) != holds:
            found = f"{'no' if holds else 'a'} target in the domain of {name}"
            raise Code.BAD_SITES.error(
                expected=f"the class at {job.class_at}"
                + (" of the sites" * (job.class_at == "all")),
                found=found,
                fix="give the class in the domain of the site that the job names, and in no other",
            )
        if own.target is not None:
            _check_classes(own.target, job, name)
        if job.epsilon is not None and own.domain is not None and not own.domain.is_public:
            raise Code.DOMAIN_READ_FROM_DATA.error(found=f"{path}, read from data")
        return own

    @classmethod
    def _read(cls, path: Path) -> OwnColumns:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Code.BAD_DOMAIN_FILE.error(
                expected="the domain file of this site",
                found=f"there is no {path}",
                fix="name it with `hedgerow upload --here --domain FILE`",
            ) from None
        except (OSError, ValueError) as error:
            raise Code.BAD_DOMAIN_FILE.error(found=f"{path}: {error}") from None
        if set(data) == {"target"}:
            return cls(None, Target.model_validate(data["target"]))
        domain = Domain.from_dict(data, source=str(path))
        if domain.target is None:
            return cls(domain, None)
        return cls(domain.select(domain.names, target=False), domain.target)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, that of the class last."""
        names = () if self.domain is None else self.domain.names
        return (*names, *(() if self.target is None else (self.target.name,)))

    @property
    def n_values(self) -> NDArray[np.int64]:
        """Values of each attribute, int64 (d,)."""
        if self.domain is None:
            return np.zeros(0, dtype=np.int64)
        return self.domain.n_bins.astype(np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, to be stored beside nodes."""
        return {
            "attributes": None if self.domain is None else self.domain.to_dict(),
            "target": None if self.target is None else self.target.model_dump(mode="json"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OwnColumns:
        """Read what `to_dict` wrote."""
        domain, target = data["attributes"], data["target"]
        return cls(
            None if domain is None else Domain.from_dict(domain, source="the columns of a site"),
            None if target is None else Target.model_validate(target),
        )

    def no_rows(self) -> SiteTable:
        """Return a table without rows: what answering needs of it, and no more."""
        bins = np.zeros((0, len(self.n_values)), dtype=np.uint8)
        labels = None if self.target is None else np.zeros(0, dtype=np.uint8)
        return SiteTable(bins, self.n_values, labels, np.zeros(0, dtype=np.int64))

    def table(
        self,
        path: Path | SqlQuery,
        ids: str,
        absorbed: AbsorbedRows | None = None,
        capacity: int | None = None,
    ) -> SiteTable:
        """Read the rows that the tree grows from; each id once (H110).

        With `absorbed` no row is refused: those without an id of their own, or without a usable
        target where it is, are left out, as are those beyond the capacity.
        """
        names, bins, labels, usable = self._read_rows(path, ids, absorbed, with_target=True)
        if absorbed is not None:
            rows = rows_within(usable, capacity, absorbed, names)
            names, bins = names[rows], np.asfortranarray(bins[rows])
            labels = None if labels is None else labels[rows]
        return SiteTable(bins, self.n_values, labels, names)

    def instances(
        self, path: Path | SqlQuery, ids: str, absorbed: AbsorbedRows | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read the rows that others may ask about: their ids, and their bins (n, d)."""
        names, bins, _, usable = self._read_rows(path, ids, absorbed, with_target=False)
        return (names, bins) if usable.all() else (names[usable], bins[usable])

    def _read_rows(
        self,
        path: Path | SqlQuery,
        ids: str,
        absorbed: AbsorbedRows | None,
        *,
        with_target: bool,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None, NDArray[np.bool_]]:
        """Return ids, bins, the target, and which rows can be used."""
        frame = read_table(path, domain=self._whole(), absorbed=absorbed)
        table, labels = view(frame, empty=absorbed is not None), None
        if self.domain is not None and ids in self.domain.names:
            raise Code.DUPLICATE_COLUMN.error(
                expected="a column of ids that is no attribute", found=f"{ids!r} as both"
            )
        names, usable = read_ids(table.column(ids), absorbed)
        if with_target and self.target is not None:
            column = table.column(self.target.name)
            labels, labelled = read_target(column, self.target, absorbed)
            usable &= labelled
        bins = np.zeros((len(names), 0), dtype=np.uint8)
        if self.domain is not None:
            bins = encode(frame, self.domain, absorbed=absorbed).bins
        return names, bins, labels, usable

    def _whole(self) -> Domain | Target | None:
        """Return the domain with the class: a CSV file is read with its types."""
        if self.domain is None:
            return self.target
        return self.domain.model_copy(update={"target": self.target})


def _check_classes(target: Target, job: VerticalJob, name: str) -> None:
    same = target.classes == job.classes or target.n_classes == job.classes
    if target.classes is None or not same:
        expected = (
            f"{job.classes} classes" if isinstance(job.classes, int) else f"{list(job.classes)}"
        )
        found = "a target without classes"
        if target.classes is not None:
            # Where the job has a number alone, which classes there are is the site's own.
            secret = isinstance(job.classes, int)
            found = f"{len(target.classes)}" if secret else f"{list(target.classes)}"
        raise Code.BAD_SITES.error(
            expected=f"the classes of the job, in its order: {expected}",
            found=f"{found} at {name}",
            fix="give the job and the domain of the class site the same classes",
        )


def parsed_ids(texts: list[str], known: NDArray[Any]) -> NDArray[Any]:
    """Return ids that are asked about, in the type of a site's own; H109 if they cannot be."""
    asked = asked_ids(texts)
    if known.dtype.kind == "U":
        return asked.astype(np.str_)
    if asked.dtype.kind == "U":
        raise Code.WRONG_TYPE.error(
            expected="whole numbers, as the ids of this site are",
            found=", ".join(texts)[:200],
            fix="ask for instances by ids of this site's table",
        )
    return asked


def rows_of(known: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.intp]:
    """Return the places of ids that are asked about among a party's own; H111 if one is missing."""
    rows, here = _places(known, asked)
    if not here.all():
        raise Code.IDS_DO_NOT_ALIGN.error(
            expected="instances that every party of the tree has",
            found="at least one that is not here",
            fix="give all of them their columns of the instances first",
        )
    return rows


def bins_or_stand_ins(
    texts: list[str], known: NDArray[Any], bins: NDArray[Any], key: bytes
) -> NDArray[Any]:
    """Return bins (n, d) of instances; of one that is not here, those of some own row in its place.

    Rows lie on a circle by a keyed hash of their ids, and so does an id that is asked about: the
    row that follows stands in. So answers have the law of own rows, whatever the attribute; they
    are alike in all models over the same table, which a difference would tell from those about an
    own row; and a row more or less changes the stand-in of few. All of it is done for all: how long
    it takes says nothing. Without own rows, all bins are 0.

    An id has one name, here or not, which is what tables read: that of the number 7 is 7, and 07 is
    another id. What is no id in a table is none in a question, whatever rows there are (H109).
    """
    asked = asked_ids(texts).astype(np.str_)
    if not len(known):
        return np.zeros((len(texts), bins.shape[1]), bins.dtype)
    names = known.astype(np.str_)
    rows, here = _places(names, asked)
    circle = _points(names.tolist(), key, b"hedgerow/row/1")
    order = np.argsort(circle)
    points = _points(asked.tolist(), key, b"hedgerow/asked/1")
    following = order[np.searchsorted(circle[order], points) % len(order)]
    return bins[np.where(here, rows, following)]


def _points(ids: list[str], key: bytes, person: bytes) -> NDArray[np.uint64]:
    """Return places on a circle that nobody without the key can tell."""
    points = b"".join(
        hashlib.blake2b(one.encode(), digest_size=8, key=key, person=person).digest() for one in ids
    )
    return np.frombuffer(points, dtype="<u8")


def _places(known: NDArray[Any], asked: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the places of ids among a party's own, and which of them are there."""
    if not len(known):
        return np.zeros(len(asked), dtype=np.intp), np.zeros(len(asked), dtype=np.bool_)
    order = np.argsort(known)
    rows = order[np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)]
    here: NDArray[np.bool_] = known[rows] == asked
    return rows, here
