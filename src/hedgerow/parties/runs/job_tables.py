"""`UploadsJob`, and how its uploads make up its table: slots, columns, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hedgerow.errors import Code, HedgerowError
from hedgerow.parties.consortium.config import Member, PartyConfig
from hedgerow.parties.consortium.names import Name
from hedgerow.parties.runs.job_files import Job, JobFile
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.privacy.accounting import Guarantee
from hedgerow.protocols.hidden.programs import FIRST_OWNER
from hedgerow.protocols.sharing.integrate import Partition
from hedgerow.protocols.sharing.join import openings
from hedgerow.protocols.sharing.table import Upload, is_joined
from hedgerow.protocols.sharing.uploaded import n_planes
from hedgerow.secure.replicated import EVERYONE
from hedgerow.tables import Domain

_FEW = 64


class UploadsJob(JobFile, Job):
    """A job of the three servers on uploads.

    `population` is charged, and is that of all uploads, which are in the order of their slots.
    `partition`: whether uploads hold rows or columns. The plan has the number of slots, `n_slots`,
    and says whether a target is needed.
    """

    model: Name
    population: Name
    uploads: Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
    partition: Partition = "horizontal"
    analysts: Annotated[tuple[Name, ...], Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        self.check_name_length()
        for key in ("uploads", "analysts"):
            names = getattr(self, key)
            if len(set(names)) < len(names):
                raise ValueError(f"{key} lists a name twice")
        return self

    @property
    def model_name(self) -> str:
        """Name of the model."""
        return self.model

    def seats(self, config: PartyConfig) -> tuple[Member, ...]:
        """Return the three servers; analysts take no part, and must be there."""
        for analyst in self.analysts:
            config.member(analyst, "analyst")
        config.check_servers()
        return config.servers

    def describe(self) -> list[str]:
        """Say on which uploads it is."""
        return [f"uploads: {', '.join(self.uploads)} ({self.make_plan().n_slots:,} slots)"]

    def opened(self) -> list[tuple[str, str]]:
        """Return what is opened to make the table of columns, then what the plan opens."""
        before = openings([1] * len(self.uploads), EVERYONE) if self.partition == "vertical" else []
        return [(one.name, one.audience) for one in before] + super().opened()

    @property
    def payers(self) -> str:
        """Who charges it."""
        return "Each of the three servers"

    def uploads_for(self, manifests: Iterable[UploadManifest]) -> list[Upload]:
        """Place the uploads in the slots of the plan; manifests are of exactly these, in any order.

        Upload i of the job is party 3 + i. If slots of the plan are left, one more, of the next
        party, stands for empty slots; `store.uploads.held_uploads` fills it. H910 if an upload is
        of another population, has other columns than the domain of the job, or if they do not fill
        its table.
        """
        return _placed_uploads(self, list(manifests))

    @cached_property
    def _costs(self) -> dict[str, Guarantee]:
        # The ledger of the run will say the same, and answers cost nothing more.
        found: dict[str, Guarantee] = self.make_plan().costs()
        return found


def _placed_uploads(job: UploadsJob, manifests: Sequence[UploadManifest]) -> list[Upload]:
    ordered = ordered_manifests(job, manifests)
    for manifest in ordered:
        _check_columns(job, manifest)
    every = tuple(range(len(job.domain.attributes)))
    if job.partition == "horizontal":
        for manifest in ordered:
            _check_whole(job, manifest)
        _check_owners(ordered)
        sizes = [manifest.rows for manifest in ordered]
        firsts, total = [sum(sizes[:i]) for i in range(len(sizes))], sum(sizes)
    else:
        _check_vertical(job, ordered)
        firsts, total = [0] * len(ordered), min(manifest.rows for manifest in ordered)
    has_target, rows = job.make_plan().domain.target is not None, job.partition == "horizontal"
    uploads = [
        Upload(
            party=FIRST_OWNER + i,
            first=firsts[i],
            rows=manifest.rows,
            features=tuple(sorted(job.domain.indices(manifest.domain.names))),
            target=manifest.has_target if has_target else rows or i == 0,
            tagged=manifest.tagged,
        )
        for i, manifest in enumerate(ordered)
    ]
    room = job.make_plan().n_slots
    # Empty slots cost as much as full ones: a few may be left, not any number.
    if not total <= room <= 2 * total + _FEW:
        raise Code.UPLOADS_DO_NOT_FIT.error(
            expected=f"room for the {total:,} slots of the uploads, and not much more",
            found=f"a plan with {room:,} slots",
            fix=f"write capacity = {total} into the table [plan] of the job",
        )
    if total < room and not is_joined(uploads):
        uploads.append(Upload(FIRST_OWNER + len(ordered), total, room - total, every, True))
    return uploads


def ordered_manifests(job: UploadsJob, manifests: Sequence[UploadManifest]) -> list[UploadManifest]:
    """Return the manifests in the order of the job; H910 if they are of other uploads."""
    known = {manifest.id: manifest for manifest in manifests}
    if set(known) != set(job.uploads) or len(known) < len(manifests):
        raise Code.UPLOADS_DO_NOT_FIT.error(
            expected=f"the uploads {', '.join(job.uploads)}, each once",
            found=", ".join(manifest.id for manifest in manifests) or "none",
        )
    return [known[upload] for upload in job.uploads]


def plane_order(domain: Domain, manifest: UploadManifest) -> NDArray[np.int64]:
    """Return in which order the planes of an upload have the columns in the order of `domain`.

    Those of a target that the domain does not have are left out; tags come last.
    """
    part = manifest.domain
    sizes = [n_planes(part.select([i], target=False)) - 1 for i in part.indices()]
    first = 1 + np.concatenate([[0], np.cumsum(sizes)])
    places = sorted(range(len(sizes)), key=lambda i: domain.index(part.names[i]))
    pieces = [np.arange(first[i], first[i] + sizes[i]) for i in places]
    behind = first[-1] if domain.target is not None else n_planes(part)
    return np.concatenate([[0], *pieces, np.arange(behind, manifest.planes)]).astype(np.int64)


def _check_columns(job: UploadsJob, manifest: UploadManifest) -> None:
    """Refuse an upload of other people, or with a column that the job does not have just so."""
    if manifest.population != job.population:
        raise _refusal(
            manifest, f"population {job.population}", f"population {manifest.population}"
        )
    for attribute in manifest.domain.attributes:
        if attribute.name not in job.domain.names:
            raise _refusal(manifest, "columns of the job's domain", f"column {attribute.name!r}")
        if attribute != job.domain.attributes[job.domain.index(attribute.name)]:
            raise _refusal(
                manifest,
                f"column {attribute.name!r} as the job's domain declares it",
                "other bounds, bins, categories or rules",
            )
    target = job.make_plan().domain.target
    if target is not None and manifest.has_target and manifest.domain.target != target:
        raise _refusal(manifest, "the target as the job's domain declares it", "another one")


def _check_whole(job: UploadsJob, manifest: UploadManifest) -> None:
    missing = [name for name in job.domain.names if name not in manifest.domain.names]
    target = job.make_plan().domain.target
    if target is not None and not manifest.has_target:
        missing.append(target.name)
    if missing:
        raise _refusal(
            manifest,
            "all columns, and the target if the job needs it, where owners hold rows",
            f"no {', '.join(map(repr, missing[:5]))}",
        )
    if manifest.alignment:
        # The slots of such records are not random by themselves: a join makes them so.
        raise _refusal(
            manifest,
            "rows, where owners hold rows",
            "columns to join with others, shared with --ids",
            'write partition = "vertical" into the job, or upload the table without --ids',
        )


def _check_owners(manifests: Sequence[UploadManifest]) -> None:
    """Refuse two versions of one owner's table side by side: its records would count twice."""
    seen: dict[str, str] = {}
    for manifest in manifests:
        other = seen.setdefault(manifest.owner, manifest.id)
        if other != manifest.id:
            raise Code.UPLOADS_DO_NOT_FIT.error(
                expected="one upload of every owner, so that no record is in the table twice",
                found=f"{other} and {manifest.id}, both of {manifest.owner}",
                fix="name the upload that counts; records that belong together are one upload",
            )


def _check_vertical(job: UploadsJob, manifests: Sequence[UploadManifest]) -> None:
    first = manifests[0]
    if len(manifests) > 1 or first.alignment:
        _check_tags(manifests)
    target = job.make_plan().domain.target
    times = Counter(name for manifest in manifests for name in manifest.domain.names)
    names = list(job.domain.names)
    if target is not None:
        times[target.name] = sum(manifest.has_target for manifest in manifests)
        names.append(target.name)
    wrong = [name for name in names if times[name] != 1]
    if wrong:
        raise Code.UPLOADS_DO_NOT_FIT.error(
            expected="every column, and a target that is needed, in exactly one upload",
            found=", ".join(f"{name!r} in {times[name]}" for name in wrong[:5]),
        )


def _check_tags(manifests: Sequence[UploadManifest]) -> None:
    """Refuse columns that cannot be joined, each mistake in words of its own."""
    first = manifests[0]
    for other in manifests:
        if not other.tagged:
            raise _refusal(
                other,
                "columns with the tags of their ids, where owners hold columns",
                "slots by a key, of an earlier version" if other.alignment else "rows without ids",
                "upload the columns again with --ids and --align-key",
            )
        if other.alignment != first.alignment:
            raise _refusal(
                other,
                f"the key file of the owner of {first.id}",
                "another one",
                "upload all columns again with one key file (--align-key) at all owners",
            )
        if other.ids != first.ids:
            raise _refusal(
                other,
                f"ids of one kind, {first.ids}, as in {first.id}",
                f"ids that their owner calls {other.ids}",
                "write the ids alike and upload again with one --id-type at all owners",
            )


def _refusal(
    manifest: UploadManifest, expected: str, found: str, fix: str | None = None
) -> HedgerowError:
    return Code.UPLOADS_DO_NOT_FIT.error(
        expected=f"in upload {manifest.id}: {expected}",
        found=found,
        fix=fix or "use one domain file for all uploads and for the job",
    )
