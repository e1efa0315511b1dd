"""Numbered errors: what was expected, what was found, what to do.

Every refusal of Hedgerow has one number in one enumeration, `Code`. The pages under
``docs/errors`` are generated from it (``hedgerow errors --write docs/errors``). A retired number
stays reserved.

Ranges: 1xx tables, 2xx privacy, 3xx leakage, 4xx trees and models, 5xx estimators,
6xx audit, 9xx command line.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple


class HedgerowWarning(UserWarning):
    """Something that is allowed and that the user should know about."""


class HedgerowError(Exception):
    """A numbered refusal; `code` is a member of `Code`."""

    code: Code
    expected: str
    found: str
    fix: str

    def __init__(self, code: Code, *, expected: str, found: str, fix: str) -> None:
        self.code, self.expected, self.found, self.fix = code, expected, found, fix
        super().__init__(
            f"{code.number}: {code.value.title}. Expected: {expected}. Found: {found}. Do: {fix}."
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.code.name, self.expected, self.found, self.fix)


class InputError(HedgerowError, ValueError):
    """Data or a parameter outside what was declared."""


class InputTypeError(HedgerowError, TypeError):
    """Data of a type that cannot be read."""


class PrivacyError(HedgerowError, ValueError):
    """A privacy claim that cannot be made."""


class LeakageError(HedgerowError, RuntimeError):
    """An opening that was not declared."""


class FormatError(HedgerowError, ValueError):
    """A file or message that does not follow its format."""


class MissingExtraError(HedgerowError, ImportError):
    """An optional package that is not installed."""


class Spec(NamedTuple):
    """What one number stands for."""

    number: int
    raises: type[HedgerowError]
    title: str
    expected: str
    fix: str
    why: str


@unique
class Code(Enum):
    """Every numbered error."""

    MISSING_VALUE = Spec(
        101,
        InputError,
        "Missing value (NaN or null)",
        "a value in every cell of an attribute declared with missing='error'",
        "fill or drop those rows, or declare the attribute with missing='own bin'",
        "A missing value needs a rule that does not depend on the data. NaN in numeric columns and "
        "null in any column count as missing. sklearn-style input without a domain is treated as "
        "declared with missing='error'.",
    )
    UNKNOWN_CATEGORY = Spec(
        102,
        InputError,
        "Unknown category",
        "one of the categories that the domain lists",
        "correct the value, add the category to the domain (which is public: ask the other owners), "
        "or declare the attribute with outside='clip' so that unlisted values share one bin",
        "Categories are public and fixed before the data are seen. Learning one from the rows would "
        "publish that somebody has it.",
    )
    OUTSIDE_BOUNDS = Spec(
        103,
        InputError,
        "Value outside the bounds",
        "a value within the bounds that the domain declares",
        "correct the value, widen the public bounds, or declare outside='clip'",
        "Bounds are public and decide how much one record can change a sum. Infinite values are "
        "outside every bound.",
    )
    UNKNOWN_CLASS = Spec(
        104,
        InputError,
        "Class not in the domain",
        "a class label that the domain's target lists",
        "correct the label or add it to the target's classes",
        "The list of classes is public; a class read from the rows would publish that it occurs.",
    )
    EMPTY_TABLE = Spec(
        105,
        InputError,
        "Empty table",
        "at least one row and one column",
        "pass a table with rows; check the filter that was applied before",
        "Nothing can be learned from no rows, and no domain can be suggested from them.",
    )
    DUPLICATE_COLUMN = Spec(
        106,
        InputError,
        "Duplicate column",
        "every column name once",
        "rename or drop the repeated column",
        "With two columns of one name it would be chance which of them is used.",
    )
    MISSING_COLUMN = Spec(
        107,
        InputError,
        "Column not found",
        "every attribute of the domain as a column of the table",
        "pass a table with the named columns, or a domain without them",
        "Columns are matched by name when both sides have names, by position otherwise.",
    )
    WRONG_SHAPE = Spec(
        108,
        InputError,
        "Wrong shape",
        "a two-dimensional table whose rows match the target and the ids",
        "check that the table and the target come from the same rows",
        "Arrays are matched by position: a length that differs means a row lost its label.",
    )
    WRONG_TYPE = Spec(
        109,
        InputTypeError,
        "Value of the wrong type",
        "numbers for numeric attributes, listed categories for categorical ones",
        "convert the column, or change the attribute's kind in the domain",
        "Hedgerow does not guess a conversion: it could differ between owners.",
    )
    DUPLICATE_ID = Spec(
        110,
        InputError,
        "Duplicate id",
        "every row id once",
        "aggregate or drop the repeated rows: one person, one row",
        "Epsilon is counted per row. A person with several rows would pay several times.",
    )
    IDS_DO_NOT_ALIGN = Spec(
        111,
        InputError,
        "Ids do not align",
        "the same row ids at every party",
        "align the tables on their common ids first",
        "Vertical partitions put columns of the same row together by id.",
    )
    CAPACITY_EXCEEDED = Spec(
        112,
        InputError,
        "More rows than the capacity",
        "at most as many rows as the domain's public capacity",
        "raise the capacity in the domain (it is public) or pass fewer rows",
        "The table is padded to a public number of slots so that the number of rows stays secret.",
    )
    BAD_ATTRIBUTE = Spec(
        113,
        InputError,
        "Attribute is not well defined",
        "a numeric attribute with finite bounds lo < hi and bins or edges, or a categorical one "
        "with distinct categories",
        "correct the attribute in the domain",
        "A missing bound is an error and never read from the data.",
    )
    BAD_DOMAIN_FILE = Spec(
        114,
        FormatError,
        "Domain file cannot be read",
        "a TOML file with [[attributes]], an optional [target] and an optional capacity",
        "correct the file; `Domain.to_toml()` of any domain shows the format",
        "The domain is part of what all parties agree on, so unknown keys are refused too.",
    )
    UNREADABLE_FILE = Spec(
        115,
        FormatError,
        "Table cannot be read",
        "a CSV, Parquet or Arrow (IPC) file",
        "check the path, the file's ending and that the file is complete",
        "The reader is chosen by the file's ending: .csv, .parquet, .arrow, .feather, .ipc.",
    )
    BAD_TARGET = Spec(
        116,
        InputError,
        "Target does not fit the task",
        "a domain whose target has classes (classification) or bounds (regression)",
        "declare the target in the domain, or use the estimator for the other task",
        "The target's classes or bounds are public, like those of every attribute.",
    )
    BAD_DOMAIN = Spec(
        117,
        InputError,
        "Domain is not well defined",
        "at least one attribute, a capacity of at least 1 where there is one, and no other keys",
        "correct the domain; `Domain.to_toml()` of any domain shows the format",
        "The domain is what all parties agree on before any row is seen.",
    )
    BAD_EPSILON = Spec(
        201,
        PrivacyError,
        "Epsilon is not a positive finite number",
        "a finite number greater than 0",
        "choose an epsilon such as 1.0; for a model without privacy use an estimator that makes "
        "no claim (CARTClassifier, ID3Classifier)",
        "Zero allows no answer at all, infinity is no guarantee, and neither is ever substituted.",
    )
    DOMAIN_READ_FROM_DATA = Spec(
        202,
        PrivacyError,
        "The domain was read from the data",
        "a domain whose bounds, categories and classes are public knowledge",
        "write the domain by hand, or check each suggested value and call "
        "`domain.confirm_public()`",
        "Bounds and categories taken from the rows reveal rows: the largest salary is somebody's.",
    )
    MISSING_DOMAIN = Spec(
        203,
        PrivacyError,
        "No domain was given",
        "domain=Domain(...) with public bounds, categories and classes",
        "pass domain=; `Domain.suggest(X, y)` writes a draft to check by hand",
        "A private estimator cannot look at the data to find its bounds.",
    )
    UNKNOWN_MECHANISM = Spec(
        204,
        PrivacyError,
        "Unknown mechanism in the ledger",
        "a mechanism that the accountant knows",
        "register the mechanism with its privacy argument, or use one of the listed ones",
        "An accountant that meets an event it does not know must not guess its cost.",
    )
    BAD_RELEASE = Spec(
        205,
        PrivacyError,
        "Release is not well defined",
        "epsilon >= 0 (infinity allowed), 0 <= delta <= 1, a sensitivity > 0, a scope, an audience",
        "correct the release; a cost that is not known is epsilon = infinity",
        "A cost must never be negative, NaN or silently 0.",
    )
    BAD_SCOPE = Spec(
        206,
        PrivacyError,
        "Scope cannot be composed in parallel",
        "a partition whose parts depend on each record alone and on earlier releases",
        "use one of the accepted reasons in `Partition`, or charge the parts in sequence",
        "Cutting a shuffled table into equal chunks fails: one more row moves many others.",
    )
    BUDGET_EXCEEDED = Spec(
        207,
        PrivacyError,
        "Budget exceeded",
        "a charge that fits into what is left of the budget",
        "lower the cost, or agree on a larger budget; nothing was released",
        "The charge is made before anything is drawn, so a refusal costs nothing.",
    )
    MISSING_CAPACITY = Spec(
        208,
        PrivacyError,
        "No public capacity",
        "domain.capacity, a public upper bound on the number of rows",
        "declare capacity in the domain, or choose options that do not need it",
        "The number of rows is private under add/remove neighbours. The entropy criterion and "
        "depth='auto' need a public number in its place.",
    )
    BAD_MECHANISM_INPUT = Spec(
        209,
        PrivacyError,
        "Mechanism input is not well defined",
        "integer values, an integer sensitivity >= 1 and at least one candidate",
        "put real scores on a public grid first",
        "The law of a mechanism is exact only on integers.",
    )
    SEEDED_NOISE = Spec(
        210,
        PrivacyError,
        "Seeded noise has no guarantee",
        "noise keyed by the operating system",
        "leave random_state=None for a model that leaves the building",
        "Whoever knows the seed can subtract the noise.",
    )
    BAD_LEDGER_FILE = Spec(
        211,
        FormatError,
        "Ledger or leakage file cannot be read",
        "JSON that follows the schema, in a version that this release reads",
        "write the file again with this version; do not edit it by hand",
        "A file is checked whole before any of it is used, and a version is never guessed.",
    )
    UNDECLARED_OPENING = Spec(
        301,
        LeakageError,
        "Opening was not declared",
        "a name that the protocol declares",
        "declare the opening with its audience, shape and reason, or do not open it",
        "Nothing is opened that the protocol did not declare.",
    )
    WRONG_AUDIENCE = Spec(
        302,
        LeakageError,
        "Opening to another audience",
        "the audience that the declaration names",
        "open it to the declared audience, or change the declaration and its privacy argument",
        "What one party may see is not for another.",
    )
    WRONG_OPENING_SHAPE = Spec(
        303,
        LeakageError,
        "Opening of another shape",
        "the shape that the declaration computes from public parameters",
        "open exactly the declared values",
        "A larger shape would open more; a shape that depends on the data would itself leak.",
    )
    TOO_MANY_OPENINGS = Spec(
        304,
        LeakageError,
        "Opened more often than declared",
        "at most the declared number of openings",
        "raise the declared number together with its release in the ledger",
        "Each opening of a noisy value costs epsilon again.",
    )
    BAD_DECLARATION = Spec(
        305,
        LeakageError,
        "Opening is not well declared",
        "either the release that pays for it, or the reason why it is independent of the data",
        "give exactly one of `release=` and `independent=`",
        "Every opening is either paid for or harmless, and the declaration says why.",
    )
    NOT_CHARGED = Spec(
        306,
        LeakageError,
        "Opening that the ledger was not charged for",
        "a charge in the ledger for every opening that a release pays for, made before it",
        "charge the release first, with the reason that the declaration names",
        "Charged first, drawn afterwards: a value that is out cannot be taken back.",
    )
    BAD_MODEL_FILE = Spec(
        401,
        FormatError,
        "Model file cannot be read",
        "JSON that follows the model schema",
        "export the model again; do not edit model files by hand",
        "A model file is checked whole before any of it is used.",
    )
    MODEL_VERSION = Spec(
        402,
        FormatError,
        "Model file of another version",
        "a schema version that this release reads",
        "update hedgerow, or export the model again with this version",
        "Versions are never guessed.",
    )
    BAD_TREE = Spec(
        403,
        InputError,
        "Tree is not well formed",
        "nodes whose children come after them, each child once, splits inside the domain",
        "build trees with the learners",
        "A malformed tree could send prediction into an endless loop.",
    )
    CANNOT_EXPORT = Spec(
        404,
        InputError,
        "Model cannot be exported in this form",
        "binary threshold splits on numeric attributes",
        "use the JSON export, or train with branching='binary' on numeric attributes",
        "scikit-learn's trees know thresholds only.",
    )
    TOO_MANY_CANDIDATES = Spec(
        405,
        InputError,
        "Too many bins",
        "at most 65,536 bins per attribute",
        "declare fewer bins",
        "Bins are stored in one or two bytes.",
    )
    MISSING_EXTRA = Spec(
        406,
        MissingExtraError,
        "Optional package is not installed",
        "the packages of the extra that this function needs",
        "install them, for example with pip install 'hedgerow[onnx]'",
        "The core install stays small; what few people need comes as an extra.",
    )
    BAD_PARAMETER = Spec(
        501,
        InputError,
        "Parameter out of range",
        "a value that the parameter's documentation allows",
        "correct the parameter",
        "Parameters are checked before the data are touched.",
    )
    ONE_CLASS = Spec(
        502,
        InputError,
        "Only one class",
        "a target with at least two classes",
        "declare every class that can occur in the domain's target",
        "With one class there is nothing to learn.",
    )
    NOT_RELEASED = Spec(
        503,
        PrivacyError,
        "This figure was not released",
        "a figure that the ledger paid for",
        "train with the option that releases it, or do without",
        "Every number computed from private rows is a release, accuracy included.",
    )
    UNKNOWN_TARGET = Spec(
        601,
        InputError,
        "Unknown audit target",
        "a name that `hedgerow audit --list` prints",
        "choose one of those names",
        "Audits run against registered mechanisms, estimators and protocols.",
    )
    BAD_AUDIT = Spec(
        602,
        InputError,
        "Audit is not well defined",
        "at least 100 runs and at least one pair of neighbouring inputs",
        "raise the number of runs, or give a pair",
        "Half of the runs choose the attack, the other half measure it.",
    )
    UNKNOWN_ERROR_NUMBER = Spec(
        901,
        InputError,
        "Unknown error number",
        "a number that `hedgerow errors` lists",
        "choose one of those numbers",
        "Numbers are never reused; a number that is missing here belongs to a newer release.",
    )

    @property
    def number(self) -> str:
        """The number as printed, such as ``H101``."""
        return f"H{self.value.number}"

    def error(
        self, *, found: str, expected: str | None = None, fix: str | None = None
    ) -> HedgerowError:
        """Build the exception; `found` is always particular, the rest may be made so."""
        return self.value.raises(
            self,
            expected=expected or self.value.expected,
            found=found,
            fix=fix or self.value.fix,
        )

    def page(self) -> str:
        """Render the help page as Markdown."""
        spec = self.value
        return (
            f"# {self.number}: {spec.title}\n\n"
            f"{spec.why}\n\n"
            f"**Expected:** {spec.expected}.\n\n"
            f"**What to do:** {spec.fix}.\n\n"
            f"In Python: `hedgerow.errors.Code.{self.name}`, raised as "
            f"`hedgerow.errors.{spec.raises.__name__}`.\n"
        )


def _rebuild(name: str, expected: str, found: str, fix: str) -> HedgerowError:
    return Code[name].error(found=found, expected=expected, fix=fix)
