"""Public numbers of a party in the text format of Prometheus; nothing of rows or shares."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metric:
    """What a party counts or measures, and by what; names ending in ``_total`` only ever grow."""

    name: str
    about: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """As Prometheus calls it."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def of(self, value: float, *labels: str) -> Sample:
        """Return a number of it, with the values of its labels in order."""
        return Sample(self, value, dict(zip(self.labels, labels, strict=True)))


@dataclass(frozen=True)
class Sample:
    """One number."""

    metric: Metric
    value: float
    labels: dict[str, str] = field(default_factory=dict)


REQUESTS = Metric("hedgerow_requests_total", "Requests that came.", ("verb", "outcome"))
REQUEST_BYTES = Metric("hedgerow_request_bytes_total", "Bytes of payload of requests.", ("way",))


class RequestCounts:
    """Requests by verb and outcome: ``ok``, or the number of an error."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._bytes: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, verb: str, outcome: str, octets_in: int, octets_out: int) -> None:
        """Count a request."""
        with self._lock:
            self._counts[verb, outcome] += 1
            self._bytes.update({"in": octets_in, "out": octets_out})

    def samples(self) -> Iterator[Sample]:
        """Return the counts."""
        with self._lock:
            counts, octets = dict(self._counts), dict(self._bytes)
        for (verb, outcome), count in sorted(counts.items()):
            yield REQUESTS.of(count, verb, outcome)
        for way, count in sorted(octets.items()):
            yield REQUEST_BYTES.of(count, way)


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Write samples, those of one metric together."""
    families: dict[Metric, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.metric, []).append(sample)
    lines = []
    for metric, found in families.items():
        name = metric.name
        lines += [f"# HELP {name} {metric.about}", f"# TYPE {name} {metric.kind}"]
        for one in found:
            labels = ",".join(f'{key}="{_escape(text)}"' for key, text in one.labels.items())
            value = repr(float(one.value)).replace("inf", "Inf")
            lines.append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
