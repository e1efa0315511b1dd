"""Run a program at n parties, each in its own process on this machine.

For tests and benchmarks: real processes, real certificates, real TLS on the loopback interface.
The launcher knows all inputs, so nothing is private here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import Identity, make_identity
from hedgerow.net.meeting import Endpoint, listen
from hedgerow.net.meter import Reading
from hedgerow.net.tls import TLSNetwork
from hedgerow.net.values import read_value, write_value

HOST = "127.0.0.1"
_CHILD = "import sys; from hedgerow.net.launch import _party; sys.exit(_party(sys.argv[1]))"
# Errors that only tell that some other party has failed.
_ECHOES = {Code.PEER_STOPPED, Code.PEER_GONE, Code.PEER_TIMEOUT}


@dataclass(frozen=True)
class Outcome:
    """How one party ended; seconds are of the program alone, without start and meeting."""

    value: Any
    meter: Reading | None
    error: HedgerowError | None
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    log: str


def run_parties(
    program: Callable[..., Any] | str,
    n: int = 3,
    args: Sequence[Any] = (),
    *,
    own: Mapping[int, Sequence[Any]] | None = None,
    timeout: float = 60.0,
    limit: float = 600.0,
    check: bool = True,
    dial_out: Collection[int] = (),
    doors: Callable[[Sequence[int]], Sequence[int]] = tuple,
) -> list[Outcome]:
    """Run ``program(network, *args, *own[party])`` at n parties, each in its own process.

    The program is a function of a module that can be imported, or ``"module:function"``; no other
    process is handed the `own` arguments of a party. A step may take `timeout` seconds; after
    `limit` seconds the processes are ended. With `check`, the error that came first is raised.
    Parties that `dial_out` have no address. `doors` returns where the others call, a relay's port
    for each port at which a party listens.
    """
    name = program if isinstance(program, str) else f"{program.__module__}:{program.__qualname__}"
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as place:
        folder = Path(place)
        identities = [make_identity(folder, f"party-{party}") for party in range(n)]
        listeners = [listen(HOST, 0) for _ in range(n)]
        write_value(folder / "args.json", list(args))
        for party, more in (own or {}).items():
            write_value(folder / f"own-{party}.json", list(more))
        job = {
            "program": name,
            "session": secrets.token_bytes(16),
            "timeout": timeout,
            "ports": [
                None if party in dial_out else port
                for party, port in enumerate(doors([one.getsockname()[1] for one in listeners]))
            ],
            "certificates": [identity.pem for identity in identities],
        }
        for party, listener in enumerate(listeners):
            mine = {"party": party, "fd": listener.fileno()}
            write_value(folder / f"job-{party}.json", job | mine)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for party, listener in enumerate(listeners):
                processes.append(_start(folder, party, listener))
            _wait(processes, limit)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        outcomes = [_outcome(folder, party, processes[party].returncode) for party in range(n)]
    errors = [outcome.error for outcome in outcomes if outcome.error]
    if check and errors:
        raise min(errors, key=lambda error: error.code in _ECHOES)
    return outcomes


def _start(folder: Path, party: int, listener: socket.socket) -> subprocess.Popen[bytes]:
    # The listener is handed over open: its port cannot be taken in between.
    with listener, (folder / f"log-{party}.txt").open("wb") as log:
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", _CHILD, str(folder / f"job-{party}.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[listener.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


def _wait(processes: Sequence[subprocess.Popen[bytes]], limit: float) -> None:
    end = time.monotonic() + limit
    with contextlib.suppress(subprocess.TimeoutExpired):
        for process in processes:
            process.wait(max(0.0, end - time.monotonic()))


def _outcome(folder: Path, party: int, returncode: int) -> Outcome:
    log = (folder / f"log-{party}.txt").read_text(encoding="utf-8", errors="replace")
    path = folder / f"result-{party}.json"
    if not path.is_file():
        error = Code.PARTY_FAILED.error(
            expected=f"a result of party {party}", found=f"exit status {returncode}; {log[-500:]}"
        )
        return Outcome(None, None, error, 0.0, 0.0, 0, log)
    result = read_value(path)
    if result["error"] is not None:
        code, expected, found, fix = result["error"]
        result["error"] = Code[code].error(expected=expected, found=found, fix=fix)
    if result["meter"] is not None:
        result["meter"] = Reading.from_json(result["meter"])
    return Outcome(**result, log=log)


def _party(job_path: str) -> int:
    path = Path(job_path)
    job = read_value(path)
    folder, party = path.parent, int(job["party"])
    result: dict[str, Any] = {"value": None, "meter": None, "error": None}
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        with _network(folder, job) as network:
            module, _, function = job["program"].partition(":")
            program = getattr(importlib.import_module(module), function)
            args = read_value(folder / "args.json")
            own = folder / f"own-{party}.json"
            args += read_value(own) if own.is_file() else []
            wall, cpu = time.perf_counter(), time.process_time()
            result["value"] = program(network, *args)
            result["meter"] = network.meter.snapshot().to_json()
    except HedgerowError as error:
        result["error"] = [error.code.name, error.expected, error.found, error.fix]
    except Exception as error:
        # A defect of the program, not of a peer: its author needs the place.
        traceback.print_exc()
        failed = Code.PARTY_FAILED.error(
            expected=f"the program {job['program']} to end by itself at party {party}",
            found=f"{type(error).__name__}: {error}",
        )
        result["error"] = [failed.code.name, failed.expected, failed.found, failed.fix]
    result["seconds"] = time.perf_counter() - wall
    result["cpu_seconds"] = time.process_time() - cpu
    result["peak_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Renamed into place, so that a result is there as a whole or not at all.
    write_value(folder / f"result-{party}.part.json", result)
    (folder / f"result-{party}.part.json").rename(folder / f"result-{party}.json")
    return 0 if result["error"] is None else 1


def _network(folder: Path, job: dict[str, Any]) -> TLSNetwork:
    party = int(job["party"])
    roster = [
        Endpoint(None if port is None else HOST, port or 0, certificate)
        for port, certificate in zip(job["ports"], job["certificates"], strict=True)
    ]
    identity = Identity(folder / f"party-{party}.key", folder / f"party-{party}.pem")
    return TLSNetwork(
        party,
        roster,
        identity,
        session=job["session"],
        program=job["program"].encode(),
        timeout=job["timeout"],
        listener=socket.socket(fileno=job["fd"]),
    )
