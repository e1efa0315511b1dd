"""A PostgreSQL server of the tests' own: in a temporary folder, on the loopback, as no root."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.parties.free_ports import free_ports

USER, PASSWORD = "ward", "correct horse: 50% staple"
ESCAPED = "correct%20horse%3A%2050%25%20staple"


@dataclass(frozen=True)
class Server:
    """Where it listens; nobody gets in without the password."""

    port: int

    def uri(self, database: str = "postgres", password: str | None = ESCAPED) -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str, database: str = "postgres") -> None:
        """Change something, which queries cannot."""
        from adbc_driver_postgresql import dbapi

        with (
            dbapi.connect(self.uri(database), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return None if on_path is None else Path(on_path).resolve().parent


def _as_nobody() -> tuple[list[str], int | None]:
    """Return what a command begins with, and whose the folder is: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return [], None
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    ids = f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}"
    return ["setpriv", *ids, "--clear-groups"], user.pw_uid


@contextmanager
def serving_postgres() -> Iterator[Server]:
    """Start a server, and stop it; skip the test where there is no PostgreSQL."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb")
    prefix, owner = _as_nobody()
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no setpriv")
    # Not below pytest's own folder, into which nobody else may look.
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder, data = Path(name), Path(name) / "data"
        (folder / "password").write_text(PASSWORD)
        if owner is not None:
            os.chown(folder, owner, -1)
            os.chown(folder / "password", owner, -1)

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [*prefix, str(programs / program), "-D", str(data), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
            )
            log = folder / "log"
            assert done.returncode == 0, done.stdout or (log.exists() and log.read_text())

        login = f"--username={USER}", f"--pwfile={folder / 'password'}", "--auth=scram-sha-256"
        run("initdb", *login, "--no-sync", "--encoding=UTF8", "--locale=C")
        server = Server(free_ports())
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": server.port,
            "unix_socket_directories": "",
            "fsync": "off",
        }
        options = " ".join(f"-c {key}='{value}'" for key, value in settings.items())
        run("pg_ctl", "start", "-w", "-l", str(folder / "log"), "-o", options)
        try:
            yield server
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
