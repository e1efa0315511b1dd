"""The auditor: attacks privacy claims and reports the epsilon that the attack proves.

`audit` attacks one `Target`, `audit_all` several; `register` adds targets to those that
``hedgerow audit`` knows. `hedgerow.audit.tables` has neighbouring tables for tree learners,
`hedgerow.audit.report` tables, JSON and the exit code.
"""

from hedgerow.audit.bounds import (
    ceiling,
    epsilon_lower,
    probability_lower,
    probability_upper,
)
from hedgerow.audit.engine import Pair, Result, Run, Target, audit, audit_all, repeated
from hedgerow.audit.registry import load, lookup, register, targets
from hedgerow.audit.report import exit_code, table, to_json, verdict
from hedgerow.audit.tables import Side, Table, families, neighbours, sides

__all__ = [
    "Pair",
    "Result",
    "Run",
    "Side",
    "Table",
    "Target",
    "audit",
    "audit_all",
    "ceiling",
    "epsilon_lower",
    "exit_code",
    "families",
    "load",
    "lookup",
    "neighbours",
    "probability_lower",
    "probability_upper",
    "register",
    "repeated",
    "sides",
    "table",
    "targets",
    "to_json",
    "verdict",
]
