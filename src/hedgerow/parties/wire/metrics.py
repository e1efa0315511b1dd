"""Public numbers of a party in the text format of Prometheus; nothing of rows or shares."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Sample:
    """One number: what it is, and of what; names ending in ``_total`` only ever grow."""

    name: str
    about: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


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
            labels = {"verb": verb, "outcome": outcome}
            yield Sample("hedgerow_requests_total", "Requests that came.", count, labels)
        for way, count in sorted(octets.items()):
            about = "Bytes of payload of requests."
            yield Sample("hedgerow_request_bytes_total", about, count, {"way": way})


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Write samples, those of one name together."""
    families: dict[str, list[Sample]] = {}
    for sample in samples:
        families.setdefault(sample.name, []).append(sample)
    lines = []
    for name, found in families.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {found[0].about}", f"# TYPE {name} {kind}"]
        for one in found:
            labels = ",".join(f'{key}="{_escape(text)}"' for key, text in one.labels.items())
            value = repr(float(one.value)).replace("inf", "Inf")
            lines.append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
