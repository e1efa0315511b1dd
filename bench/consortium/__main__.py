"""``python -m bench.consortium chaos|load|wan``: one part of the benchmark, with its options."""

from __future__ import annotations

import argparse
import json
import sys

from bench import consortium
from bench.consortium.parts import PARTS, QUICK


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.consortium", description=consortium.__doc__
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--quick", action="store_true", help="a few runs or queries only")
    numbers = {"runs": int, "seed": int, "analysts": int, "queries": int, "each": int}
    for name, kind in (numbers | {"limit": float}).items():
        parser.add_argument(f"--{name}", type=kind)
    given = vars(parser.parse_args())
    part, quick = given.pop("part"), given.pop("quick")
    options = {name: value for name, value in given.items() if value is not None}
    rows = PARTS[part](**(QUICK[part] if quick else {}) | options)
    print(json.dumps(rows, indent=1))
    sys.exit(1 if any(each["wrong"] for each in rows) else 0)


if __name__ == "__main__":
    main()
