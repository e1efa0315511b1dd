"""A new consortium: one folder per party, with commented files and without any key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hedgerow.errors import Code
from hedgerow.parties.consortium.config import HOLDERS, SERVERS, Member, PartyConfig, Role, Timeouts
from hedgerow.parties.consortium.names import check_name
from hedgerow.parties.consortium.policy import Lifetime, Policy
from hedgerow.parties.store.durable import make_private, write_new
from hedgerow.protocols.registry import PEER_PROTOCOLS, TOPDOWN, VERTICAL

HOST = "127.0.0.1"
FIRST_PORT = 7600
_STEP = 10

_PARTY = """\
# Who this party is, and who the others are. Nothing in this file is secret.

# Name of the consortium, the same at all parties.
consortium = "{consortium}"

# This party's name in the list of members below; the one line that differs between the parties.
name = "{name}"
{listen}
# How long this party waits, in seconds.
[timeouts]
connect = {t.connect:g}     # for a connection to a server, with its handshake
request = {t.request:g}     # for the answer to a request
step = {t.step:g}        # for one step of a computation among the servers, besides its bytes
rejoin = {t.rejoin:g}     # for a server that fell over to come back, before a run ends for all
clock = {t.clock:g}       # by which the clock of a server may differ

# The members, the same list in the same order at all parties: names, roles and, for those who are
# called, addresses. The first server is server 0. Names have the characters a-z, 0-9 and -.
# role        server: computes on shares; there are exactly three, or none beside a coordinator,
#             sites or peers.
#             owner: uploads shares of its table, or answers a coordinator with noise.
#             analyst: asks models. coordinator: carries a top-down run; nobody trusts it.
#             site: holds columns of records that other sites have columns of; they call each other.
#             peer: the same, and computes with the other peers on shares.
# host        where the others reach a server, a coordinator, a site or a peer. 127.0.0.1 is this
#             machine alone, for study: write the real host name before other machines are used.
# port        for requests: of owners, of analysts, of the servers, of sites and peers.
# run_port    for training and answers with others who take part.
{members}"""

_LISTEN = """
# Address on which this party takes calls, if it is another one than its host below: such as
# "0.0.0.0" (all networks) behind a router. Empty: the host below.
listen = "{listen}"
"""

_POLICY = """\
# What this party allows, whatever the others propose. It is read from here alone.

# Largest epsilon of one job, for every audience (such as the analyst or the public).
largest_epsilon_per_job = {p.largest_epsilon_per_job!r}

# Largest delta of one job: the chance that epsilon does not hold. The default has room for the
# finite precision of noise and for nothing else.
largest_delta_per_job = {p.largest_delta_per_job:g}

# Whether a job may have no finite epsilon: its answers are exact and say what they say about
# people. false refuses such jobs.
allow_exact = {exact}

# Protocols of jobs that may run. What "hidden-tree", "hidden-regression" and "hidden-boosting" make
# stays hidden on the servers; "open-tree" would publish the tree, with noise by its epsilon, and so
# does "topdown". "vertical-id3" grows a tree in pieces that stay at their sites, which learn exact
# counts: it needs allow_exact, and a population without a limit. So do "pivot-tree" and the like,
# models among peers, who see of them what the job says, unless it has noise and a hidden join.
# "evaluation" would tell an analyst, with noise, how good a hidden model is on held-out uploads.
allowed_protocols = [{protocols}]

# Members that may ask models.
allowed_analysts = [{analysts}]

# Members, such as owners, sites or peers, that may post jobs: each can spend what populations below
# have. Without this line the owners of the uploads of a job may. Who has posted a run, and the
# owners of its uploads, may stop and resume it.
{posters}

# Largest job: trees, over all rounds and classes, and levels of splits of each.
largest_trees_per_job = {p.largest_trees_per_job}
largest_depth = {p.largest_depth}

# Bytes of one upload, which a server reads into memory, and of all uploads of one owner, which it
# keeps. A larger first number counts after a restart.
largest_upload_bytes = {p.largest_upload_bytes}
upload_bytes_per_owner = {p.upload_bytes_per_owner}

# Runs of one member that have no model: those under way, and those that were stopped or have
# failed, whose jobs are kept as well.
runs_per_poster = {p.runs_per_poster}

# Bytes that requests of one member may leave in this party's database for good: jobs, whatever has
# become of them, descriptions of uploads, terms, attempts, and what the trail tells of all that. A
# request counts as 8 KiB at least. What was withdrawn, or has ended, counts on.
state_bytes_per_member = {p.state_bytes_per_member}

# Bytes of state/log.jsonl; then it becomes state/log.jsonl.1, in the place of an older one. Another
# number counts after a restart.
log_bytes = {p.log_bytes}

# People, one of whom has to approve every job before this party takes part in it, with
# `hedgerow runs approve RUN` in this folder. An empty list asks nobody. A job about which nobody
# has decided after so many seconds is refused.
approvers = [{approvers}]
approval_seconds = {p.approval_seconds:g}

# Rows that may be asked of one model: by all analysts together, and by each of them.
queries_per_model = {p.queries_per_model}
queries_per_analyst = {p.queries_per_analyst}

# Whether everybody who reaches this party may read its numbers at /metrics, without a certificate:
# how many runs there are in which state, who is waited for, what is left of budgets. false shows
# them to members alone.
open_metrics = {metrics}

# Lifetime epsilon and delta of every population: the people whose rows an owner uploads. All jobs
# on their data are charged to it, also after another upload: a training with all its model will
# ever answer. A population that is not listed here is not used. For example:
# patients-north = {{ epsilon = 3.0, delta = 1e-06 }}
# A number alone is the epsilon, with delta 1e-06. At an owner, servers that have its rows hold to
# these lines too: they go to them with every upload, and with `hedgerow uploads terms POPULATION`.
[populations]
{populations}"""

_README = """\
{name}: {role} in the consortium {consortium}

{steps}
{last}
"""

_STEPS = """\
What you do next, on this party's own machine, in this folder:

1. Make sure that nobody else can read it:         chmod 700 . keys members
2. Look through party.toml and policy.toml; every option is explained there. The list of members
   must be the same at all parties; the policy is yours alone.
3. Make your key and certificate:                  hedgerow keys
   The key (keys/party.key) never leaves this machine.{state}
4. Send your certificate (keys/party.pem) to the one of you who collects them. With those of all
   members in a folder, that one makes a bundle:   hedgerow consortium bundle FOLDER -o bundle.json
   and sends it to everybody.
5. Add the bundle that you get:                    hedgerow consortium add FILE
   Compare the digest that it shows with the others by telephone, before you say yes.
   Instead, certificates may be sent and added one by one, with a telephone call each. This party
   needs those of {others}.
6. See whether all is well:                        hedgerow consortium check"""

_STUDIED = """\
For study alone: the keys of all parties were made on one machine, and their certificates are
exchanged. Whoever has this folder beside the others could be any of them. Between organisations,
found a consortium without --study, and let each make its own key.

What you do next, in this folder:

1. See whether all is well, once others serve:     hedgerow consortium check"""

_STATE = """
   What the {role} keeps is encrypted with keys/state.key. Keep a copy of it in a safe place, or
   move it off this disk and set HEDGEROW_STATE_KEY to its text instead."""

_SERVED, _CARRIED = "with servers", "with a coordinator"
_HOLDS = [
    ("Name a table that stays here:", "hedgerow upload --here --help", ""),
    ("Take part in runs, and answer:", "hedgerow serve", ""),
    ("Grow a tree:", "hedgerow train --help", ""),
    ("Ask it:", "hedgerow query --help", ""),
]
_LAST: dict[Role, list[tuple[str, str, str]]] = {
    "server": [
        ("Take part, and take uploads:", "hedgerow serve", ""),
    ],
    "owner": [
        ("Share your table with the servers:", "hedgerow upload --help", _SERVED),
        ("Name a table that stays here:", "hedgerow upload --here --help", _CARRIED),
        ("Take part in runs:", "hedgerow serve", _CARRIED),
        ("Train:", "hedgerow train --help", ""),
    ],
    "analyst": [("Ask a model:", "hedgerow query --help", _SERVED)],
    "coordinator": [("Take part in runs:", "hedgerow serve", "")],
    "site": _HOLDS,
    "peer": _HOLDS,
}
"""What a role is for: what is done, how, and in which consortium."""


def list_members(
    servers: Sequence[str],
    owners: Sequence[str],
    analysts: Sequence[str] = (),
    *,
    coordinator: str = "",
    sites: Sequence[str] = (),
    peers: Sequence[str] = (),
    hosts: Sequence[str] = (),
    first_port: int = FIRST_PORT,
) -> tuple[Member, ...]:
    """List the members of a new consortium: three servers, or none where others need none.

    Those are a coordinator, sites or peers.
    `hosts`: of the servers, one each, then of coordinator, sites and peers; by default this
    machine's loopback address. ``host:port`` also says where that member's ports begin.
    `first_port`: server i gets first_port + 10 i and the ports after it; the coordinator comes
    next, then sites and peers.
    Raises H851 for a name, H852 for what a list of members may not be.
    """
    for kind, holders in (("sites", sites), ("peers", peers)):
        if len(holders) == 1:
            raise Code.BAD_PARTY_FILE.error(
                expected=f"two {kind} or more", found=f"{holders[0]} alone"
            )
    if len(servers) != SERVERS and (servers or not (coordinator or sites or peers)):
        raise Code.BAD_PARTY_FILE.error(
            expected=f"exactly {SERVERS} servers",
            found=f"{len(servers)}: {', '.join(servers)}",
            fix="name three servers, run by three organisations that do not pool their shares",
        )
    called = [*servers, *([coordinator] if coordinator else []), *sites, *peers]
    if hosts and len(hosts) != len(called):
        raise Code.BAD_PARTY_FILE.error(
            expected=f"a host for each of {', '.join(called)}",
            found=f"{len(hosts)} hosts",
            fix=f"name {len(called)} hosts",
        )
    for name in (*called, *owners, *analysts):
        check_name(name, "member")
    places = [
        _place(hosts[i] if hosts else HOST, first_port + _STEP * i) for i in range(len(called))
    ]
    listed = [
        Member(name=name, role="server", host=host, port=port, run_port=port + 1)
        for name, (host, port) in zip(servers, places, strict=False)
    ]
    listed += [Member(name=name, role="owner") for name in owners]
    listed += [Member(name=name, role="analyst") for name in analysts]
    for name, (host, port) in list(zip(called, places, strict=True))[len(servers) :]:
        role: Role = "peer" if name in peers else "site"
        role = "coordinator" if name == coordinator else role
        listed.append(Member(name=name, role=role, host=host, port=port, run_port=port + 1))
    return tuple(listed)


def _place(text: str, port: int) -> tuple[str, int]:
    """Read ``host``, ``host:port`` or ``[IPv6]:port``; an address of IPv6 alone has no port."""
    found = re.fullmatch(r"(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})", text)
    return (found[1] or found[2], int(found[3])) if found else (text, port)


def found_consortium(
    folder: Path,
    name: str,
    members: Sequence[Member],
    populations: Mapping[str, float | Lifetime] | None = None,
    *,
    policy: Mapping[str, Any] | None = None,
    timeouts: Timeouts | None = None,
    listen: str = "",
    study: bool = False,
) -> list[Path]:
    """Write a folder ``<name>`` with a folder per member in it, and return these.

    `populations`: lifetime epsilon by population, for all policies to begin with.
    `policy`: other lines of all policies; without, the strictest that is of use.
    `listen`: where those who take calls do so, if not at their hosts.
    `study`: whether all keys are made here next (`members.introduce_all`), and not by operators.
    Raises H859 if the folder exists; H851 to H853 as for the files. Nothing is written then.
    """
    check_name(name, "consortium")
    allowed = ["hidden-tree", "hidden-regression", "hidden-boosting"]
    by_role = {"coordinator": (TOPDOWN,), "site": (VERTICAL,), "peer": tuple(PEER_PROTOCOLS)}
    for role, protocols in by_role.items():
        if any(member.role == role for member in members):
            allowed += protocols
    lines: dict[str, Any] = {
        "largest_epsilon_per_job": 1.0,
        "allowed_protocols": tuple(allowed),
        "allowed_analysts": tuple(one.name for one in members if one.role == "analyst"),
        "allowed_posters": tuple(one.name for one in members if one.role in ("owner", *HOLDERS)),
        "queries_per_model": 1000,
        "queries_per_analyst": 1000,
        "populations": dict(populations or {}),
    }
    rules = Policy.model_validate(lines | dict(policy or {}))
    configs = [
        PartyConfig(
            consortium=name,
            name=member.name,
            listen=listen if member.takes_calls else "",
            timeouts=timeouts or Timeouts(),
            members=tuple(members),
        )
        for member in members
    ]
    root = folder / name
    make_private(root)
    made = []
    for config in configs:
        path = root / config.name
        make_private(path)
        make_private(path / "keys")
        make_private(path / "members")
        write_new(path / "party.toml", party_toml(config))
        write_new(path / "policy.toml", policy_toml(rules))
        write_new(path / "README.txt", _readme(config, study=study))
        made.append(path)
    return made


def party_toml(config: PartyConfig) -> str:
    """Write a ``party.toml`` with a comment on every option."""
    return _PARTY.format(
        consortium=config.consortium,
        name=config.name,
        listen=_LISTEN.format(listen=config.listen) if config.me.takes_calls else "",
        t=config.timeouts,
        members="\n".join(_member(member) for member in config.members),
    )


def policy_toml(policy: Policy) -> str:
    """Write a ``policy.toml`` with a comment on every option."""
    return _POLICY.format(
        p=policy,
        exact=str(policy.allow_exact).lower(),
        metrics=str(policy.open_metrics).lower(),
        protocols=", ".join(f'"{name}"' for name in policy.allowed_protocols),
        analysts=", ".join(f'"{name}"' for name in policy.allowed_analysts),
        posters=_posters(policy),
        approvers=", ".join(f'"{name}"' for name in policy.approvers),
        populations="".join(
            f"{name} = {{ epsilon = {one.epsilon!r}, delta = {one.delta!r} }}\n"
            for name, one in policy.populations.items()
        ),
    )


def _posters(policy: Policy) -> str:
    if policy.allowed_posters is None:
        return '# allowed_posters = ["north"]'
    names = ", ".join(f'"{name}"' for name in policy.allowed_posters)
    return f"allowed_posters = [{names}]"


def _member(member: Member) -> str:
    lines = ["[[members]]", f'name = "{member.name}"', f'role = "{member.role}"']
    if member.takes_calls:
        lines += [f'host = "{member.host}"', f"port = {member.port}"]
        lines += [f"run_port = {member.run_port}"]
    return "\n".join(lines) + "\n"


def _readme(config: PartyConfig, *, study: bool) -> str:
    others = [member.name for member in config.members if member != config.me]
    carried = any(member.role == "coordinator" for member in config.members)
    owners = any(member.role == "owner" for member in config.members)
    served = bool(config.servers) and (owners or not config.holders)
    there = {"": True, _SERVED: served, _CARRIED: carried}
    verbs = [(what, how) for what, how, where in _LAST[config.role] if there[where]]
    if config.role in ("owner", "server", *HOLDERS):
        verbs.append(("See what the account has paid:", "hedgerow account show ."))
    state = _STATE.format(role=config.role) if config.me.keeps_shares else ""
    steps = _STUDIED if study else _STEPS.format(others=", ".join(others), state=state)
    last = enumerate(verbs, 2 if study else 7)
    return _README.format(
        name=config.name,
        role=config.role,
        consortium=config.consortium,
        steps=steps,
        last="\n".join(f"{i}. {what:<47} {how}" for i, (what, how) in last),
    )
