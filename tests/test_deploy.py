"""The files of deploy/: their steps run, their commands are the program's, units are sound.

Nothing is fetched here, and nobody is made root: the steps of the image run in a plain folder, with
its paths below that folder, and packages come from the environment that runs the tests.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.parties.consortium.config import PartyConfig
from hedgerow.parties.consortium.members import Certificate
from tests.command_lines import check_command

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, without comments, each with what follows it."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", text)
    found = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(word, rest) for word, rest in found]


def of(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    copied = set()
    for rest in of("COPY"):
        *sources, _ = rest.split()
        if sources[0].startswith("--from="):
            stage = sources[0].removeprefix("--from=")
            assert any(made.endswith(f" AS {stage}") for made in of("FROM"))
            continue
        copied |= set(sources)
    assert copied == allowed
    for source in copied:
        assert (ROOT / source).exists(), source
    # All that the build names is among it.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert {project["project"]["readme"], *project["project"]["license-files"]} <= copied


def install(venv: Path, source: Path, environment: dict[str, str]) -> None:
    """Do as pip: copy the package, and write the program that the project names."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["hedgerow"].split(":")
    (site,) = venv.glob("lib/python*/site-packages")
    shutil.copytree(source / "src" / "hedgerow", site / "hedgerow")
    program = venv / "bin" / "hedgerow"
    program.write_text(
        f"#!{venv / 'bin' / 'python'}\nimport sys\nfrom {module} import {function}\n"
        f"sys.exit({function}())\n"
    )
    program.chmod(0o755)
    # What it needs is there, in the versions that it wants.
    check = "import importlib.metadata as m, sys; [m.version(name) for name in sys.argv[1:]]"
    names = [re.split(r"[<>=\[]", one)[0] for one in project["dependencies"]]
    subprocess.run(
        [venv / "bin" / "python", "-c", check, *names], env=environment, check=True, timeout=120
    )


def test_the_steps_of_the_image_run(tmp_path: Path) -> None:
    root = tmp_path / "root"

    def here(text: str) -> str:
        """Move the paths of the image below a folder."""
        return re.sub(r"(?<![\w/.])/(opt|srv|build|var/cache)\b", rf"{root}/\1", text)

    where = root
    # Its own package, not this checkout; packages of the tests for the rest.
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": sysconfig.get_paths()["purelib"],
        "HOME": str(tmp_path),
    }
    users = []
    for word, rest in instructions():
        if word == "WORKDIR":
            where = Path(here(rest))
            where.mkdir(parents=True, exist_ok=True)
        elif word == "COPY" and not rest.startswith("--from="):
            *sources, target = rest.split()
            for source in sources:
                to = where / target
                if (ROOT / source).is_dir():
                    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
                    shutil.copytree(ROOT / source, to, ignore=ignore)
                else:
                    shutil.copy(ROOT / source, to)
        elif word == "COPY":
            # From a stage to the same place of the next one.
            _, source, target = rest.split()
            assert source == target
            assert Path(here(source)).is_dir()
        elif word == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(here(rest)))
        elif word == "RUN":
            for step in rest.split("&&"):
                words = shlex.split(here(step))
                if words[0] in ("groupadd", "useradd"):
                    users.append(words)
                elif words[0] == "install":
                    # Whose it is, only root can say.
                    at = [i for i, part in enumerate(words) if part in ("-o", "-g")]
                    left = [p for i, p in enumerate(words) if i not in at and i - 1 not in at]
                    (Path(words[-1]).parent).mkdir(parents=True, exist_ok=True)
                    subprocess.run(left, check=True, timeout=60)
                elif "pip" in words:
                    assert words[-3:] == ["-c", "constraints.txt", "."]
                    assert (where / "constraints.txt").is_file()
                    install(root / "opt" / "hedgerow", where, environment)
                else:
                    subprocess.run(words, cwd=where, env=environment, check=True, timeout=120)
    home = root / "srv" / "party"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "var/cache/hedgerow").stat().st_mode) == 0o1777
    # As the image starts: the last words of it, and no more.
    environment["NUMBA_CACHE_DIR"] = str(tmp_path / "kernels")
    (entry,) = of("ENTRYPOINT")
    for more in (["--help"], ["--version"], ["serve", "--help"]):
        words = [*json.loads(entry), *more]
        done = subprocess.run(
            words, cwd=home, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
    # The program is that of the image.
    found = shutil.which(json.loads(entry)[0], path=environment["PATH"])
    assert found == str(root / "opt/hedgerow/bin/hedgerow")
    where_is = "import hedgerow; print(hedgerow.__file__)"
    said = subprocess.run(
        [root / "opt/hedgerow/bin/python", "-P", "-c", where_is],
        env=environment | {"PYTHONPATH": f"{root}/nowhere"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.stdout.startswith(str(root)), said.stderr
    # Nobody who can do more than its own.
    (user,) = of("USER")
    number, _, group = user.partition(":")
    assert int(number) > 0
    made = dict(pair for words in users for pair in itertools.pairwise(words))
    assert (made["--uid"], made["--gid"]) == (number, group)
    assert json.loads(*of("VOLUME")) == of("WORKDIR")[-1:] == ["/srv/party"]


def test_the_image_starts_and_is_looked_at_with_commands_of_the_program() -> None:
    assert json.loads(*of("ENTRYPOINT")) == ["hedgerow"]
    check_command(json.loads(*of("CMD")))
    (check,) = of("HEALTHCHECK")
    options, _, command = check.partition("CMD ")
    program, *words = json.loads(command)
    assert program == "hedgerow"
    check_command(words)
    assert all(re.fullmatch(r"--[a-z-]+=\d+s?", option) for option in options.split())


@pytest.fixture(scope="module")
def composed() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_the_services_of_a_consortium(composed: dict) -> None:
    services = composed["services"]
    names = [name for name in services if name != "found"]
    assert names == ["alder", "birch", "cedar", "north", "south", "zoe"]
    for name, service in services.items():
        check_command(service["command"])
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert "privileged" not in service
        assert "ports" not in service
        # A service is in a network, or in none.
        assert ("networks" in service) != ("network_mode" in service)
        assert set(service.get("networks", [])) <= set(composed["networks"])
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service["volumes"]:
            source, target = volume.split(":")
            assert source.startswith(".") or source in composed["volumes"]
            if target == "/srv/party":
                assert source == f"./wards/{name}"
    # No two parties share anything that both write.
    mounted = [volume.split(":")[0] for name in names for volume in services[name]["volumes"]]
    assert len(set(mounted)) == len(mounted) == 12
    assert {name for name in names if services[name]["command"] == ["serve"]} == set(names[:3])
    for name in names[3:]:
        waited = services[name]["depends_on"]
        assert waited == {server: {"condition": "service_healthy"} for server in names[:3]}
        assert services[name]["healthcheck"] == {"disable": True}


def test_the_folders_are_those_of_the_services(
    composed: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    services = composed["services"]
    done = CliRunner().invoke(app, services["found"]["command"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    folders = sorted(path.name for path in (tmp_path / "wards").iterdir())
    assert folders == sorted(name for name in services if name != "found")
    for name in folders:
        config = PartyConfig.load(tmp_path / "wards" / name)
        assert (config.role == "server") == (services[name]["command"] == ["serve"])
        for member in config.members:
            Certificate.of(config, member.name)
        # Containers call each other by the names of services.
        assert [server.host for server in config.servers] == ["alder", "birch", "cedar"]
        assert config.listen == ("0.0.0.0" if config.role == "server" else "")


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "hedgerow.service").read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_unit_runs_the_program_and_little_else() -> None:
    lines = unit()
    (start,) = lines["ExecStart"]
    program, *words = start.split()
    assert program == "/opt/hedgerow/bin/hedgerow"
    check_command(words)
    folder = f"/var/lib/{lines['StateDirectory'][0]}"
    assert words[-1] == folder
    assert lines["WorkingDirectory"] == [folder]
    assert lines["StateDirectoryMode"] == ["0700"]
    for key, value in (
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("CapabilityBoundingSet", ""),
        ("User", "hedgerow"),
    ):
        assert lines[key] == [value], key


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze"
)


@needs_systemd
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "hedgerow.service").read_text()
    program = Path(sys.executable).with_name("hedgerow")
    made = tmp_path / "hedgerow.service"
    # The program and the user of another machine; all else as it is.
    made.write_text(
        text.replace("/opt/hedgerow/bin/hedgerow", str(program)).replace("User=hedgerow\n", "")
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", made], capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if "hedgerow" in line]
    assert said == []


@needs_systemd
def test_what_is_left_to_a_unit_that_was_taken_over() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", DEPLOY / "hedgerow.service"],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"SYSTEMD_COLORS": "0"},
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd-analyze is older than 250")
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level is not None, done.stdout + done.stderr
    # From 0 to 10; a unit without any of these lines has 9.6.
    assert float(level[1]) < 2.0
