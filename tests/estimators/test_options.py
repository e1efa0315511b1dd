"""Every estimator has the parameters that its options declare, with the defaults there."""

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import hedgerow
from hedgerow.protocols.contract import Options
from hedgerow.protocols.hidden.options import RunOptions
from hedgerow.protocols.registry import SERVER_PROTOCOLS

ROOT = Path(__file__).parents[2]
SHARED = {"domain", "account", "bad_rows", "insecure_domain_from_data", "random_state", "verbose"}
"""Parameters that belong to no protocol."""
OF_DOMAINS = {"max_bins", "missing"}
"""How a domain is read from the data, where there is none."""
OF_SITES = {"n_sites", "groups", "class_at", "engine"}
OF_PEERS = {"n_peers", "groups", "target_at", "engine"}
"""How one process deals a table out, which jobs say by names and domains of their own."""
OTHERS: dict[Any, set[str]] = {
    hedgerow.VerticalID3Classifier: OF_SITES,
    hedgerow.PivotBoostingClassifier: OF_PEERS,
    hedgerow.PivotBoostingRegressor: OF_PEERS,
    hedgerow.PivotForestClassifier: OF_PEERS,
    hedgerow.PivotForestRegressor: OF_PEERS,
    hedgerow.PivotLogisticRegression: OF_PEERS,
    hedgerow.PivotTreeClassifier: OF_PEERS,
    hedgerow.PivotTreeRegressor: OF_PEERS,
}
ESTIMATORS = [
    one
    for one in (getattr(hedgerow, name) for name in hedgerow.__all__)
    if hasattr(one, "_options_type")
]


def options_of(estimator: Any) -> list[type[Options]]:
    run = [RunOptions] if "engine" in inspect.signature(estimator).parameters else []
    return [estimator._options_type, *run]


def test_there_are_some() -> None:
    assert len(ESTIMATORS) >= 6


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_constructors_have_the_names_and_defaults_of_their_options(estimator: Any) -> None:
    declared = {
        name: options.model_fields[field].default
        for options in options_of(estimator)
        for field, name in options.parameters().items()
    }
    for name, parameter in inspect.signature(estimator).parameters.items():
        if name == "epsilon":
            # A job has to state it, so that options may have no default.
            # Sites and peers have noise only if they are asked for it.
            exact = estimator in OTHERS
            assert parameter.default == (None if exact else 1.0)
            assert declared[name] in (None, 1.0)
        elif name in declared:
            assert parameter.default == declared[name], name
        else:
            others = OTHERS.get(estimator, set())
            exact = "epsilon" not in declared or declared["epsilon"] is None
            assert name in SHARED | others | (OF_DOMAINS if exact else set()), name


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_defaults_are_allowed(estimator: Any) -> None:
    for options in options_of(estimator):
        options.from_parameters(estimator().get_params(deep=False))


def test_every_option_is_described_in_a_sentence() -> None:
    every = {protocol.options_type for protocol in SERVER_PROTOCOLS.values()}
    every |= {options for one in ESTIMATORS for options in options_of(one)}
    for options in every:
        for row in options.reference():
            assert row.description.endswith("."), f"{options.__name__}.{row.key}"
            assert not row.description[0].islower(), f"{options.__name__}.{row.key}"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_help_describes_every_parameter_once(estimator: Any) -> None:
    about, _, rest = estimator.__doc__.partition("\nParameters\n----------\n")
    assert about.strip()
    described = re.findall(r"^(\w+) : \S.*\n    \S", rest.partition("\n\n")[0], re.M)
    assert described == list(inspect.signature(estimator).parameters)
    for row in estimator._options_type.reference():
        if row.parameter in described:
            assert row.description in " ".join(rest.split())


def test_what_is_said_beside_an_option_is_said_of_regressors_too() -> None:
    for kind in (hedgerow.PivotForestClassifier, hedgerow.PivotForestRegressor):
        assert "where scikit-learn would go on looking" in " ".join(kind.__doc__.split())
    assert "Attributes\n----------\ntree_ : Tree" in hedgerow.CARTClassifier.__doc__


def test_the_reference_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("options_page", ROOT / "tools/options_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    assert made == module.page(), "run `make docs`"
