"""A Flower federation on this machine: a SuperLink, and a SuperNode for every owner.

    python examples/flower/federation.py demo               # deployed: TLS, registered SuperNodes
    python examples/flower/federation.py demo --simulation

`demo` is a folder that prepare.py made. Every process listens on 127.0.0.1 alone and is ended by
its id; what they write is under the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tomli_w
from credentials import make_superlink, make_supernode

APP = Path(__file__).parent
BIN = Path(sys.executable).parent
PORTS = range(20000, 32000)
"""Below those that the system hands out by itself."""
PATIENCE = 60.0
GRACE = 15.0
"""Seconds for a program to end by itself."""
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A process is started for every message: one second of waiting for it would be most of a round.
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
}


class Federation:
    """Processes of a federation; `deployed` and `simulated` make one and end it.

    Parameters
    ----------
    folder : Path
        For logs and all that Flower keeps.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port = free_port()
        for name in ("logs", "homes", "keys"):
            (folder / name).mkdir(mode=0o700)

    def start(self, name: str, *command: str | Path, **more: str) -> None:
        """Start one of Flower's programs, with a home of its own."""
        with (self.folder / "logs" / f"{name}.log").open("wb") as out:
            self.processes[name] = subprocess.Popen(  # noqa: S603
                [BIN / command[0], *command[1:]],
                env=self.environment(name, **more),
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )

    def start_supernode(self, name: str, own: Path) -> None:
        """Start the SuperNode of an owner, whose key is registered."""
        keys = self.folder / "keys"
        self.start(
            name,
            "flower-supernode",
            *("--superlink", f"127.0.0.1:{self.port}"),
            *("--root-certificates", keys / "ca.pem"),
            *("--auth-supernode-private-key", keys / f"{name}.key"),
            *("--host", "127.0.0.1", "--port", str(free_port())),
            *("--node-config", f'folder="{own}"'),
        )

    def environment(self, name: str, **more: str) -> dict[str, str]:
        """Return the environment of a program: nothing is reported to anybody."""
        home = self.folder / "homes" / name
        path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        return os.environ | QUIET | {"FLWR_HOME": str(home), "PATH": path} | more

    def connect(self, **options: str | bool) -> None:
        """Write how `flwr` finds the SuperLink."""
        home = self.folder / "homes" / "flwr"
        home.mkdir()
        here = {"address": f"127.0.0.1:{self.port}", **options}
        text = tomli_w.dumps({"superlink": {"default": "here", "here": here}})
        (home / "config.toml").write_text(text)

    def wait_for_superlink(self, authority: Path | None) -> None:
        """Wait until the SuperLink answers."""
        context = None if authority is None else ssl.create_default_context(cafile=authority)
        url = f"{'http' if context is None else 'https'}://127.0.0.1:{self.port}/health"
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(url, context=context, timeout=5):  # noqa: S310
                    return
            except (urllib.error.URLError, OSError) as error:
                if time.monotonic() > end or self.processes["superlink"].poll() is not None:
                    raise RuntimeError(f"no SuperLink at {url}: {self.log('superlink')}") from error
            time.sleep(0.1)

    def flwr(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start the command `flwr`."""
        return subprocess.Popen(  # noqa: S603
            [BIN / "flwr", *arguments],
            env=self.environment("flwr"),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str | Path, timeout: float = 300.0, **config: str) -> str:
        """Run the app to its end; return what was logged.

        Parameters
        ----------
        *arguments : str or Path
            More options of ``flwr run``.
        timeout : float
            Seconds.
        **config : str
            Keys of the run configuration, with ``_`` for ``-``.
        """
        pairs = " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in config.items())
        return finished(
            self.flwr("run", APP, "here", "--stream", "--run-config", pairs, *arguments), timeout
        )

    def log(self, name: str) -> str:
        """Return what a program has written."""
        return (self.folder / "logs" / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        """End every process that was started here, and wait for those that they have started."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        end = time.monotonic() + GRACE
        while left := self.left():
            for pid in left if time.monotonic() > end else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        for process in self.processes.values():
            process.wait(GRACE)

    def left(self) -> list[int]:
        """Return the ids of processes with a home here, however they were started (on Linux)."""
        mark = f"FLWR_HOME={self.folder}{os.sep}".encode()
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            # Processes end, and others are somebody else's.
            with contextlib.suppress(OSError):
                if mark in environment.read_bytes():
                    found.append(int(environment.parent.name))
        return found


@contextmanager
def deployed(folder: Path, owners: dict[str, Path]) -> Iterator[Federation]:
    """Start a SuperLink with TLS that takes registered SuperNodes alone, and these SuperNodes.

    Parameters
    ----------
    folder : Path
        Empty.
    owners : dict of str to Path
        Folders of the owners.
    """
    here = Federation(folder)
    keys = folder / "keys"
    make_superlink(keys)
    try:
        here.start(
            "superlink",
            "flower-superlink",
            *("--ssl-ca-certfile", keys / "ca.pem"),
            *("--ssl-certfile", keys / "superlink.pem", "--ssl-keyfile", keys / "superlink.key"),
            *("--host", "127.0.0.1", "--port", str(here.port)),
            "--enable-supernode-auth",
            # What the app needs is installed; nothing is fetched while it runs.
            "--disable-runtime-dependency-installation",
        )
        here.connect(**{"root-certificates": str(keys / "ca.pem")})
        for name in owners:
            make_supernode(keys, name)
        here.wait_for_superlink(keys / "ca.pem")
        registering = [
            here.flwr("supernode", "register", keys / f"{name}.pub", "here", "--name", name)
            for name in owners
        ]
        for process in registering:
            finished(process, PATIENCE)
        for name, own in owners.items():
            here.start_supernode(name, own)
        yield here
    finally:
        here.stop()


@contextmanager
def simulated(folder: Path) -> Iterator[Federation]:
    """Start a SuperLink that simulates SuperNodes, on 127.0.0.1 and without TLS."""
    here = Federation(folder)
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as scratch:
        try:
            here.start(
                "superlink",
                "flower-superlink",
                "--simulation",
                "--insecure",
                *("--host", "127.0.0.1", "--port", str(here.port)),
                "--disable-runtime-dependency-installation",
                RAY_TMPDIR=scratch,
            )
            here.connect(insecure=True)
            here.wait_for_superlink(None)
            yield here
        finally:
            here.stop()


def simulation_options(owners: int) -> tuple[str, str]:
    """Return the options of ``flwr run`` for so many simulated owners."""
    return "--federation-config", f"num-supernodes={owners} client-resources-num-cpus=1"


def finished(process: subprocess.Popen[str], timeout: float) -> str:
    """Return what a command has written; raise if it fails or takes too long."""
    try:
        text, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        raise RuntimeError(f"no end after {timeout:g} seconds: {text}") from None
    if process.returncode:
        raise RuntimeError(f"{process.args} failed: {text}")
    return text


_given_out: set[int] = set()


def free_port() -> int:
    """Return a port of `PORTS` on which nobody listens, and that was not returned before."""
    begin = os.getpid() % len(PORTS)
    for port in (*PORTS[begin:], *PORTS[:begin]):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given_out:
            _given_out.add(port)
            return port
    raise RuntimeError("no free port")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="made by prepare.py")
    parser.add_argument("--simulation", action="store_true")
    given = parser.parse_args()
    folder = given.folder.absolute()
    owners = {own.name: own for own in sorted((folder / "owners").iterdir())}
    job = {"job": str(folder / "job.toml"), "out": str(folder / "result")}
    with tempfile.TemporaryDirectory(prefix="flower", dir=folder) as scratch:
        if given.simulation:
            with simulated(Path(scratch)) as here:
                options = simulation_options(len(owners))
                print(here.run(*options, **job, simulated_owners=str(folder / "owners")))
        else:
            with deployed(Path(scratch), owners) as here:
                print(here.run(**job))


if __name__ == "__main__":
    main()
