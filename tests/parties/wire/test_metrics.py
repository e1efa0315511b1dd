"""Numbers are written as Prometheus reads them."""

import math
import re

from hedgerow.parties.wire.metrics import Metric, RequestCounts, prometheus_text

# The grammar of a line, after the documentation of Prometheus' text format.
LINE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\\\|\\"|\\n)*",?)*\})? '
    r"([-+]?[0-9.e+-]+|[-+]?Inf|NaN)"
)


def test_the_format() -> None:
    some, others = Metric("a_total", "Some.", ("x", "y")), Metric("b", "Others.")
    text = prometheus_text(
        [some.of(3, 'q"u\\o\nte', "é"), others.of(math.inf), some.of(4e-9, "", "")]
    )
    assert text.endswith("\n")
    lines = text.splitlines()
    assert lines[:2] == ["# HELP a_total Some.", "# TYPE a_total counter"]
    # Those of one name stand together.
    assert lines[4:] == ["# HELP b Others.", "# TYPE b gauge", "b Inf"]
    assert all(LINE.fullmatch(line) for line in lines if not line.startswith("#")), text
    assert lines[2] == 'a_total{x="q\\"u\\\\o\\nte",y="é"} 3.0'


def test_requests_are_counted() -> None:
    counts = RequestCounts()
    counts.add("echo", "ok", 5, 7)
    counts.add("echo", "ok", 1, 0)
    counts.add("echo", "H871", 0, 0)
    found = {(s.metric.name, *s.labels.values()): s.value for s in counts.samples()}
    assert found == {
        ("hedgerow_requests_total", "echo", "ok"): 2,
        ("hedgerow_requests_total", "echo", "H871"): 1,
        ("hedgerow_request_bytes_total", "in"): 6,
        ("hedgerow_request_bytes_total", "out"): 7,
    }
