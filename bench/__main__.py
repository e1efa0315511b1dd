"""``python -m bench NAME [--json] [--groups GROUP ...]``: run one benchmark and print its rows."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
from pathlib import Path

from bench.data import folder
from bench.harness import machine, print_table
from hedgerow.errors import HedgerowError

HELPERS = {"data", "environment", "harness", "hidden_parties", "one_table", "peers", "small_tables"}


def names() -> list[str]:
    """Benchmarks are the modules and folders of this package that define ``run()``."""
    found = (m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(n for n in found if n not in HELPERS and not n.startswith("_"))


def main() -> None:
    """Parse the command line, run the benchmark, print an object or a table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--groups", nargs="+", help="some groups of its cases alone, such as: a c")
    arguments = parser.parse_args()
    module = importlib.import_module(f"bench.{arguments.name}")
    groups = getattr(module, "GROUPS", {})
    if unknown := set(arguments.groups or ()) - set(groups):
        parser.error(f"{arguments.name} has no groups {sorted(unknown)}; it has {list(groups)}")
    try:
        rows = module.run(arguments.groups) if arguments.groups else module.run()
    except HedgerowError as error:
        parser.exit(2, f"{error}\nData sets are read from $HEDGEROW_DATA, now {folder()}.\n")
    result = {"name": arguments.name, "machine": machine(), "rows": rows}
    if arguments.json:
        print(json.dumps(result))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
