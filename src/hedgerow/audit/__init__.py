"""The auditor: attacks privacy claims and reports the epsilon that the attack proves."""

from hedgerow.audit.bounds import (
    ceiling,
    epsilon_lower,
    probability_lower,
    probability_upper,
)
from hedgerow.audit.engine import AuditTarget, Pair, Result, Run, audit, audit_all, repeated
from hedgerow.audit.registry import lookup, register, targets
from hedgerow.audit.report import exit_code, table, to_json, verdict
from hedgerow.audit.tables import AuditTable, Side, families, neighbours, sides

__all__ = [
    "AuditTable",
    "AuditTarget",
    "Pair",
    "Result",
    "Run",
    "Side",
    "audit",
    "audit_all",
    "ceiling",
    "epsilon_lower",
    "exit_code",
    "families",
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
