"""The machine and the installation: Python, packages, kernels, cores, memory, AES, the clock."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from hedgerow.cli.doctor.symptom import Symptom, ill, note, well
from hedgerow.errors import install_of

EXTRAS = {
    "onnx": "models as ONNX files",
    "plots": "pictures with matplotlib",
    "sql": "tables in DuckDB and PostgreSQL",
    "dask": "tables on a cluster",
    "flower": "private trees over Flower",
    "paillier": "Pivot's linear step as published",
}
"""What each extra is for, of those that are not for work on Hedgerow itself."""

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?([^;]*)(?:;.*extra == \"(\w+)\")?")
_BOUND = re.compile(r"(>=|<=|<|>)\s*([\d.]+)")
_CPU, _MEMORY = Path("/proc/cpuinfo"), Path("/proc/meminfo")
_LEAST_MEMORY = 2 << 30
_UNSYNCHRONISED = 5
_NETWORK_TIME = "set it by network time, for example: timedatectl set-ntp true"


def machine_symptoms() -> Iterator[Symptom]:
    """Look at everything that does not belong to a party."""
    yield python_symptom()
    yield from package_symptoms()
    yield kernel_symptom()
    yield cores_symptom()
    yield aes_symptom()
    yield clock_symptom()


def python_symptom() -> Symptom:
    """Whether this Python is new enough, and on which system."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    try:
        wanted = distribution("hedgerow").metadata["Requires-Python"]
    except PackageNotFoundError:
        fix = "pip install . in the folder of its source; versions of packages are not known"
        return note("python", f"{found}; Hedgerow itself is not installed", fix)
    if not _within(platform.python_version(), wanted):
        fix = f"make the environment with Python {wanted}"
        return ill("python", f"{found}, not {wanted}", fix)
    if platform.system() != "Linux":
        return note("python", found, "Hedgerow is tested on Linux alone; a container has one")
    return well("python", found)


def package_symptoms() -> Iterator[Symptom]:
    """Whether what the core and each extra need is installed, in versions that do."""
    missing: dict[str, list[str]] = {"": [], **{name: [] for name in EXTRAS}}
    for name, bounds, extra in requirements():
        if extra in missing and (said := _lacking(name, bounds)):
            missing[extra].append(said)
    core = missing.pop("")
    if core:
        yield ill("packages", "; ".join(core), "pip install . in the folder of its source")
    else:
        yield well("packages", "all that the core needs, in versions that do")
    for extra, lacking in missing.items():
        what = f"extra {extra}"
        if lacking:
            fix = f"if you want {EXTRAS[extra]}: {install_of(extra)}"
            yield note(what, "; ".join(lacking), fix)
        else:
            yield well(what, EXTRAS[extra])


def requirements() -> list[tuple[str, str, str]]:
    """Return the name of each package, its bounds, and the extra it is for; none for the core."""
    try:
        lines = distribution("hedgerow").requires or []
    except PackageNotFoundError:
        return []
    found = [_REQUIREMENT.match(line) for line in lines]
    return [(one[1], one[2].strip(), one[3] or "") for one in found if one is not None]


def kernel_symptom() -> Symptom:
    """Whether kernels compile, and where the compiled ones are kept."""
    from hedgerow import compiled

    kept = compiled.kernel_cache()
    if kept is None or not os.access(kept, os.W_OK):
        return note(
            "kernels",
            "compiled in every process again: no folder for them can be written",
            "set NUMBA_CACHE_DIR to a folder of this user",
        )
    if made := sum(1 for _ in Path(kept).parent.rglob("*.nbi")):
        return well("kernels", f"{made} kept compiled, in {kept} and beside it")
    return note("kernels", "none compiled yet", "none needed: the first fit does, in half a minute")


def cores_symptom() -> Symptom:
    """How many cores this process may use, and how much memory the machine has left."""
    from hedgerow.threads import available

    free = None
    if _MEMORY.exists():
        said = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMORY.read_text(), re.M)
        free = int(said[1]) << 10 if said else None
    found = f"{available()} cores, " + (
        "memory not known" if free is None else f"{free / (1 << 30):.1f} GiB of memory free"
    )
    if free is not None and free < _LEAST_MEMORY:
        return note("cores and memory", found, "free some before a large table or a demo of six")
    return well("cores and memory", found)


def aes_symptom() -> Symptom:
    """Whether the processor has instructions for AES, which draws all shares and all noise."""
    said = _CPU.read_text() if _CPU.exists() else ""
    if not said:
        return well("AES", "not known on this system")
    if re.search(r"^(flags|Features)\s*:.*\baes\b", said, re.M):
        return well("AES", "in the processor")
    fix = "it works, several times slower; take a machine, or a virtual one, that shows them"
    return note("AES", "the processor has no instructions for it", fix)


def clock_symptom() -> Symptom:
    """Whether the clock can be right, and whether the system keeps it by network time."""
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    made = Path(__file__).stat().st_mtime
    if time.time() < made - 86_400:
        return ill("clock", f"{now}, before Hedgerow was installed", _NETWORK_TIME)
    ask = getattr(ctypes.CDLL(None), "adjtimex", None)
    # With modes of 0 nothing is set; no machine's structure is as large.
    if ask is not None and ask(ctypes.create_string_buffer(1024)) == _UNSYNCHRONISED:
        return note("clock", f"{now}, not kept by network time", _NETWORK_TIME)
    return well("clock", now)


def _lacking(name: str, bounds: str) -> str:
    """Say what is wrong with a package; nothing if it is installed and does."""
    try:
        found = version(name)
    except PackageNotFoundError:
        return f"{name} is not installed"
    return "" if _within(found, bounds) else f"{name} {found}, not {bounds}"


def _within(found: str, bounds: str) -> bool:
    holds = {
        ">=": lambda a, b: a >= b,
        "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b,
        "<": lambda a, b: a < b,
    }
    mine = _numbers(found)
    return all(holds[sign](mine, _numbers(bound)) for sign, bound in _BOUND.findall(bounds))


def _numbers(text: str) -> list[int]:
    """Return the numbers of a version, without what comes after them (rc1, .post2)."""
    released = re.match(r"[\d.]*", text)
    parts = [int(part) for part in (released[0] if released else "").split(".") if part]
    # 2.0 and 2 are one version.
    while parts and parts[-1] == 0:
        parts.pop()
    return parts
