"""Whether a consortium is ready: certificates, addresses, versions and clocks, with every fix."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from hedgerow import __version__, jsonfile
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, readable
from hedgerow.parties.consortium.config import HOLDERS, Member, PartyConfig
from hedgerow.parties.consortium.members import Certificate, check_keys, ends_soon
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.wire.client import call_member

# Where a party that listens on all networks is reached by itself.
_FROM_INSIDE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
_FIXES = {
    Code.SERVICE_UNREACHABLE: "have {name} start `hedgerow serve`; compare host and port in "
    "party.toml, and open the port in the firewalls between",
    Code.CALLER_UNKNOWN: "send keys/party.pem to {name}, to be added there; compare the clocks",
    Code.UNKNOWN_PEER: "ask {name} for its new certificate and add it, `hedgerow consortium add "
    "FILE`; with --replace, after a call, if it lost its key; else it is somebody else",
    Code.REQUEST_CUT_OFF: "look into the log of {name}; compare the port in party.toml",
}
"""What to do about a party that was not reached."""


@dataclass(frozen=True)
class Health:
    """What a server says of itself.

    `clock`: seconds since 1970, when it answered.
    `members`: its `PartyConfig.list_digest`.
    """

    version: str
    clock: float
    members: str

    @classmethod
    def of(cls, config: PartyConfig) -> Health:
        """Return what this party says of itself now."""
        return cls(__version__, time.time(), config.list_digest)

    def to_fields(self) -> dict[str, Any]:
        """Write it as the fields of a reply to the request ``health``."""
        return {"version": self.version, "clock": self.clock, "members": self.members}

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Health:
        """Read the fields of a reply, which may have others besides; H884 if they are not there."""
        version, clock, members = (fields.get(key) for key in ("version", "clock", "members"))
        if (
            not isinstance(version, str)
            or not isinstance(clock, int | float)
            or not math.isfinite(clock)
            or not isinstance(members, str)
        ):
            raise Code.BAD_REPLY.error(
                expected="version, clock and members", found=jsonfile.shown(dict(fields))
            )
        return cls(jsonfile.shown(version), float(clock), members)


Probe = Callable[[PartyConfig, Member], Health | None]
"""Reach a party: what it says, or None if it was reached and says nothing of itself yet.

Raises why it was not reached.
"""


def ask_health(
    config: PartyConfig, member: Member, identity: Identity | None = None
) -> Health | None:
    """Ask a party how it is; a `Probe`.

    `identity`: to show another certificate than the one in use.
    """
    try:
        reply = call_member(config, member, "health", identity=identity)
    except HedgerowError as error:
        if error.code is Code.UNKNOWN_VERB:
            return None
        raise
    return Health.parse(reply.fields)


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be."""

    found: str
    fix: str


@dataclass
class Finding:
    """What was found about a member, and whether this party needs its certificate.

    `reached`: None if it was not tried: this party itself, or nobody who takes calls.
    `clock`: seconds by which its clock is ahead at least; 0 if the delay of the answer explains it.
    `warnings`: what will be a problem if nobody does anything.
    """

    member: Member
    address: str | None = None
    certificate: Certificate | None = None
    reached: bool | None = None
    version: str | None = None
    clock: float | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-able values."""
        known = self.certificate
        return {
            "member": self.member.name,
            "role": self.member.role,
            "certificate": known is not None,
            "fingerprint": readable(known.fingerprint) if known else None,
            "expires": known.ends.isoformat() if known else None,
            "address": self.address,
            "reached": self.reached,
            "version": self.version,
            "clock_difference": self.clock,
            "ok": not self.problems,
            "problems": [{"found": p.found, "fix": p.fix} for p in self.problems],
            "warnings": [{"found": p.found, "fix": p.fix} for p in self.warnings],
        }


POSTERS = ("owner", "analyst", "coordinator", *HOLDERS)
"""Roles of those who may post jobs."""


def check_consortium(config: PartyConfig, probe: Probe | None = None) -> list[Finding]:
    """Check every member, in order, as far as this party can see; by default asks for health."""
    findings = [_certificate_of(config, member) for member in config.members]
    _compare_keys(findings)
    called = [
        finding
        for finding in findings
        if finding.member.takes_calls and finding.member != config.me and finding.certificate
    ]
    mine = next(finding for finding in findings if finding.member == config.me)
    if mine.certificate and not mine.problems:
        # At once: each of them may take the whole timeout.
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(lambda finding: _reach(config, finding, probe or ask_health), called))
    _check_policy(config, mine)
    return findings


def check_own(config: PartyConfig) -> Finding:
    """Check this party alone: its keys, and whether its own daemon answers.

    Raises H905 for a party that takes no calls.
    """
    if not config.me.takes_calls:
        raise Code.WRONG_ROLE.error(
            expected="a party that takes calls", found=f"{config.name}, which is {config.me.kind}"
        )
    finding = _certificate_of(config, config.me)
    # From inside, where it listens: its host may be that of a router.
    listens = _FROM_INSIDE.get(config.listen, config.listen) or config.me.host
    here = config.me.model_copy(update={"host": listens})
    finding.address = f"{here.host}:{here.port}"
    if not finding.problems:
        _reach(config, finding, lambda config, _: ask_health(config, here))
    return finding


def _certificate_of(config: PartyConfig, member: Member) -> Finding:
    me = member == config.me
    address = f"{member.host}:{member.port}" if member.takes_calls else None
    finding = Finding(member, address)
    try:
        finding.certificate = Certificate.of(config, member.name)
        if me:
            check_keys(config)
        else:
            finding.certificate.check_time()
    except HedgerowError as error:
        fix = error.fix
        if not config.certificate_file(member.name).exists():
            fix = (
                "run `hedgerow keys`"
                if me
                else f"ask {member.name} for its keys/party.pem, then run "
                "`hedgerow consortium add FILE`"
            )
        finding.problems.append(Problem(f"{error.code.number} {error.found}", fix))
    ending = ends_soon(config, member)
    if ending is not None:
        finding.warnings.append(Problem(ending.found, ending.fix))
    return finding


def _compare_keys(findings: list[Finding]) -> None:
    seen: dict[bytes, str] = {}
    for finding in findings:
        if finding.certificate is None:
            continue
        other = seen.setdefault(finding.certificate.public_key, finding.member.name)
        if other != finding.member.name:
            fix = f"have {finding.member.name} make a key of its own with `hedgerow keys`"
            finding.problems.append(Problem(f"the same key as {other}", fix))


def _check_policy(config: PartyConfig, mine: Finding) -> None:
    try:
        policy = Policy.load(config.folder)
    except HedgerowError as error:
        mine.problems.append(Problem(f"{error.code.number} {error.found}", error.fix))
        return
    roles = {member.name: member.role for member in config.members}
    for key, names, wanted in (
        ("allowed_analysts", policy.allowed_analysts, ("analyst",)),
        ("allowed_posters", policy.allowed_posters or (), POSTERS),
    ):
        for name in names:
            if roles.get(name) not in wanted:
                found = f"policy.toml allows {name}, which is no {' or '.join(wanted)}"
                fix = f"correct {key} in policy.toml, or the members in party.toml"
                mine.problems.append(Problem(found, fix))


def _reach(config: PartyConfig, finding: Finding, probe: Probe) -> None:
    server = finding.member
    before = time.time()
    try:
        health = probe(config, server)
    except HedgerowError as error:
        finding.reached = False
        where = f"{finding.address}: " if error.party is None else ""
        fix = _FIXES.get(error.code, error.fix).format(name=server.name)
        finding.problems.append(Problem(f"{error.code.number} {where}{error.found}", fix))
        return
    after = time.time()
    finding.reached = True
    if health is None:
        return
    finding.version = health.version
    if health.version != __version__:
        fix = "install the same version at all parties"
        finding.problems.append(
            Problem(f"Hedgerow {health.version} there, {__version__} here", fix)
        )
    # What the clock said when it answered lies between the two times here, if they agree.
    finding.clock = max(health.clock - after, 0.0) + min(health.clock - before, 0.0)
    # Not a number compares as false: it is refused, too.
    if not abs(finding.clock) <= config.timeouts.clock:
        fix = "set both clocks by network time (such as: timedatectl set-ntp true)"
        finding.problems.append(Problem(f"its clock differs by {finding.clock:+.0f} s", fix))
    if health.members != config.list_digest:
        fix = "compare the members in both party.toml: names, roles and order must be the same"
        finding.problems.append(Problem("it has another list of members", fix))
