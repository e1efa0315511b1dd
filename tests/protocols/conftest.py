"""Engines and small tables are those of the rooms below."""

import sys
from pathlib import Path

for room in ("secure", "secure/replicated", "trees"):
    sys.path.append(str(Path(__file__).parents[1] / room))
