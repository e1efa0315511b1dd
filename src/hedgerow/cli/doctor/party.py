"""The folder of a party: who may read it, its disk, its database, keys, policy, ports, accounts."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.cli.doctor.symptom import Symptom, ill, note, well
from hedgerow.errors import HedgerowError

if TYPE_CHECKING:
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.reach import Finding

_MOUNTS = Path("/proc/self/mounts")
# SQLite's log is shared memory, and locks have to hold: neither does between machines.
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs")
_FLEETING = ("tmpfs", "ramfs")
_LEAST_SPACE = 1 << 30


def party_symptoms(folder: Path) -> Iterator[Symptom]:
    """Look at everything in a party's folder, and at those that it calls."""
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.reach import check_consortium

    try:
        config = PartyConfig.load(folder)
    except HedgerowError as error:
        yield Symptom.of("folder", error)
        return
    yield well(
        "folder", f"{config.name}, {config.me.kind} of {config.consortium}; closed to others"
    )
    yield disk_symptom(config.folder)
    yield state_symptom(config)
    yield from port_symptoms(config)
    for finding in check_consortium(config):
        yield from member_symptoms(config, finding)
    yield from account_symptoms(config)


def disk_symptom(folder: Path) -> Symptom:
    """Whether what is written here stays: the file system, room, and how long a write takes."""
    from hedgerow.parties.store.durable import replacing

    probe, start = folder / f"doctor-{os.getpid()}", time.perf_counter()
    try:
        with replacing(probe) as file:
            file.write(b"\0" * 4096)
    except HedgerowError as error:
        return Symptom.of("disk", error)
    taken = time.perf_counter() - start
    probe.unlink()
    kind, free = file_system(folder), shutil.disk_usage(folder).free
    found = f"{kind or 'file system'}, {free / (1 << 30):.1f} GiB free, a write in {taken:.3f} s"
    if kind in _REMOTE:
        return ill("disk", found, "move the folder to a disk of this machine: SQLite needs one")
    if kind in _FLEETING:
        return note("disk", found, "move the folder to a disk: memory forgets what was charged")
    if free < _LEAST_SPACE:
        return note("disk", found, "make room: who cannot write ends a run (H869)")
    return well("disk", found)


def file_system(folder: Path) -> str:
    """Return the kind of file system that a folder lies on; nothing where it is not known."""
    if not _MOUNTS.exists():
        return ""
    found, best = "", -1
    for line in _MOUNTS.read_text().splitlines():
        _, at, kind = line.split(" ")[:3]
        place = Path(at.replace(r"\040", " "))
        if folder.resolve().is_relative_to(place) and len(place.parts) >= best:
            found, best = kind, len(place.parts)
    return found


def state_symptom(config: PartyConfig) -> Symptom:
    """Whether the database can be read, and its trail verifies; none is made."""
    from hedgerow.parties.store.accounts import STATE
    from hedgerow.parties.store.database import FILE, open_store
    from hedgerow.parties.store.trail import verify

    if not os.path.lexists(config.folder / STATE / FILE):
        return well("state", "none yet: nothing was charged here")
    try:
        store = open_store(config.state)
        with store.snapshot() as made:
            made.check_pages()
            last = verify(made.trail(), made.charges(), config.identity.pem)
    except HedgerowError as error:
        return Symptom.of("state", error)
    entries = 0 if last is None else last.n
    return well("state", f"{', '.join(store.durability)}; a trail of {entries} entries verifies")


def port_symptoms(config: PartyConfig) -> Iterator[Symptom]:
    """Whether this party's ports are free, or its own daemon has them."""
    from hedgerow.parties.consortium.reach import check_own

    if not config.me.ports:
        return
    host = config.listen or config.me.host
    refusals = {port: _refusal(host, port) for port in config.me.ports}
    taken = [port for port, errno_ in refusals.items() if errno_ == errno.EADDRINUSE]
    if not any(refusals.values()):
        yield well("ports", f"{', '.join(map(str, refusals))} are free for hedgerow serve")
    elif not taken:
        fix = "name an address of this machine as `listen` in party.toml, such as 0.0.0.0"
        yield ill("ports", f"{host} is no address that this party can listen at", fix)
    elif (own := check_own(config)).reached:
        yield well("ports", f"its daemon answers at {own.address}")
    else:
        fix = "stop what has it, or give this party other ports in party.toml of all members"
        yield ill("ports", f"{', '.join(map(str, taken))}: taken by another program", fix)


def _refusal(host: str, port: int) -> int:
    """Return the number of the error with which the system refuses to listen; 0 if it would not."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as one:
            # As a daemon does that comes back: what has just ended is no other program.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
    except OSError as error:
        return error.errno or errno.EADDRNOTAVAIL
    return 0


def member_symptoms(config: PartyConfig, finding: Finding) -> Iterator[Symptom]:
    """Say what `hedgerow consortium check` finds about a member.

    That another one does not answer is a note: it may not have begun to serve.
    """
    what = finding.member.name if finding.member != config.me else "keys and policy"
    absent = finding.reached is False
    for problem in finding.problems:
        make = note if absent else ill
        yield make(what, problem.found, problem.fix)
    for warning in finding.warnings:
        yield note(what, warning.found, warning.fix)
    if not finding.problems and not finding.warnings and finding.certificate is not None:
        days = (finding.certificate.ends - datetime.now(UTC)).days
        reached = ", reached" if finding.reached else ""
        yield well(what, f"certificate for {days} days more{reached}")


def account_symptoms(config: PartyConfig) -> Iterator[Symptom]:
    """Say what was spent of each account, and whether anything is left."""
    from hedgerow.parties.store.accounts import balances_in

    if config.role in ("analyst", "coordinator"):
        return
    try:
        balances = balances_in(config.folder)
    except HedgerowError as error:
        yield Symptom.of("accounts", error)
        return
    for one in balances:
        what, said = f"account {one.population}", "; ".join(one.describe())
        if one.left == 0:
            yield note(what, said, "no job on it will be taken; its limit is in policy.toml")
        else:
            yield well(what, said)
