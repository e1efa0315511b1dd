"""Write the reference page of all options; `make docs` calls it with the path.

Every protocol declares its parameters once, in its `Options`; the page is made of these.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import hedgerow
from hedgerow.protocols.contract import Options
from hedgerow.protocols.registry import SERVER_PROTOCOLS

HEAD = """# Options

What estimators take and what the table `[plan]` of a [job](jobs.md) holds, with bounds and
defaults. Each is declared once, in the options of its protocol, and checked there alone; this page
is made of these declarations (`make docs`). Parameters that all estimators share (`domain`,
`account`, `bad_rows`, `insecure_domain_from_data`) are described at each of them.

"""


def estimators() -> dict[type[Options], list[type]]:
    """Return the public estimators by the options that they take."""
    found: dict[type[Options], list[type]] = {}
    for name in sorted(hedgerow.__all__):
        options = getattr(getattr(hedgerow, name), "_options_type", None)
        if options is not None:
            found.setdefault(options, []).append(getattr(hedgerow, name))
    return found


def sections() -> Iterator[str]:
    """Yield the tables of jobs, then those of estimators."""
    for name, protocol in SERVER_PROTOCOLS.items():
        options = protocol.options_type
        yield section(f'Jobs of protocol "{name}"', options, set(options.model_fields), jobs=True)
    for options, made in estimators().items():
        known = inspect.signature(made[0]).parameters
        title = ", ".join(f"`{one.__name__}`" for one in made)
        # An estimator's epsilon may have a default; a job has to state it.
        epsilon = repr(known["epsilon"].default) if "epsilon" in known else ""
        yield section(title, options, set(known), epsilon=epsilon)


def section(
    title: str,
    options: type[Options],
    known: set[str],
    *,
    jobs: bool = False,
    epsilon: str = "",
) -> str:
    """Return a heading, what the options are for, and their table."""
    lines = [f"## {title}", "", (options.__doc__ or "").splitlines()[0], ""]
    same = [name for name, one in SERVER_PROTOCOLS.items() if one.options_type is options.__base__]
    if (
        jobs
        and same
        and [*options.reference()] == [*SERVER_PROTOCOLS[same[0]].options_type.reference()]
    ):
        return "\n".join([*lines, f'The table is that of protocol "{same[0]}".']) + "\n"
    lines += ["| name | values | default | what it is |", "|---|---|---|---|"]
    for row in options.reference():
        name = row.key if jobs else row.parameter
        if name in known:
            default = epsilon if name == "epsilon" and not jobs else row.default
            default = "" if default == "None" and jobs else f"`{default}`"
            # A key that is not set is left out of a file, and an estimator wants an epsilon.
            stated = jobs or name == "epsilon"
            values = row.values.removeprefix("None or ") if stated else row.values
            lines.append(f"| `{name}` | {values} | {default} | {row.description} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page."""
    return HEAD + "\n".join(sections())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
