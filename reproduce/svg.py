"""Figures of matplotlib as small SVGs, light and dark as the page around them is.

Matplotlib repeats the look of every line and marker where it draws it. Here each look is a class
and each colour a name, so that a dark page can have its own; what nothing refers to is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import groupby, islice
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from hedgerow.charts.look import DARK, FAMILY, LIGHT

SVG = "http://www.w3.org/2000/svg"
HREF = "{http://www.w3.org/1999/xlink}href"
# Text stays text, and the same figure is the same file.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "hedgerow"}
_SAID_ONCE = ("font-family", "font-style", "font-variant", "font-stretch", "stroke-linejoin",
              "stroke-linecap", "stroke-dashoffset", "stroke-miterlimit")  # fmt: skip
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_NUMBER = re.compile(r"-?\d+\.\d+")
_POINT = re.compile(r"(-?[\d.]+) (-?[\d.]+)")
_LINES = re.compile(r"M[-.\d]+ [-.\d]+(?:L[-.\d]+ [-.\d]+)+")
_READABLE = 0.25
"""Relative luminance that a line has on a dark page at least."""


def save_svg(drawn: Figure, path: Path, title: str, description: str) -> None:
    """Write a figure, with a title and a description for screen readers."""
    written = BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        drawn.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    path.write_text(small(written.getvalue(), title, description), encoding="utf-8")


def small(written: bytes, title: str, description: str) -> str:
    """Return an SVG of matplotlib with its looks named once."""
    ET.register_namespace("", SVG)
    root = ET.fromstring(written)  # noqa: S314 - written by matplotlib, a moment ago
    _prune(root)
    targets: dict[str, str] = {}
    for element in root.iter():
        if HREF in element.attrib:
            name = element.attrib.pop(HREF)[1:]
            element.set("href", f"#{targets.setdefault(name, f'm{len(targets)}')}")
    looks: dict[str, str] = {}
    colours: dict[str, str] = {}
    for element in root.iter():
        name = targets.get(element.attrib.pop("id", ""))
        if name is not None:
            element.set("id", name)
        look = _look(element.attrib.pop("style", ""), colours)
        if look:
            element.set("class", looks.setdefault(look, f"l{len(looks)}"))
        for key in ("d", "x", "y", "transform", "points"):
            value = _rounded(element.attrib.pop(key, ""))
            if value:
                element.set(key, value)
    _draw_lines_where_they_are(root)
    for element in root.iter():
        element[:] = _joined(list(element))
    for path in root.iter(f"{{{SVG}}}path"):
        path.set("d", _LINES.sub(_steps, path.get("d", "")))
    root.attrib |= {"role": "img"}
    for i, (tag, text) in enumerate(
        (("title", title), ("desc", description), ("style", _styles(looks, colours)))
    ):
        said = ET.Element(f"{{{SVG}}}{tag}")
        said.text = text
        root.insert(i, said)
    return ET.tostring(root, encoding="unicode").replace(" />", "/>") + "\n"


def _prune(parent: ET.Element) -> None:
    """Drop metadata, clips and comments, and groups that only group."""
    kept: list[ET.Element] = []
    for child in list(parent):
        tag = child.tag.removeprefix(f"{{{SVG}}}") if isinstance(child.tag, str) else ""
        if tag in ("", "metadata", "clipPath", "style"):
            continue
        child.attrib.pop("clip-path", None)
        _prune(child)
        child.text = child.text if tag == "text" else None
        child.tail = None
        if tag == "defs" and not len(child):
            continue
        if tag == "g" and not {"transform", "style"} & set(child.attrib):
            kept += list(child)
        else:
            kept.append(child)
    parent[:] = kept
    parent.text = parent.text if parent.tag == f"{{{SVG}}}text" else None


def _draw_lines_where_they_are(root: ET.Element) -> None:
    """Replace what refers to straight lines by these lines, which is shorter."""
    named = {path.get("id"): path.get("d", "") for path in root.iter(f"{{{SVG}}}path")}
    straight = {f"#{name}": d for name, d in named.items() if name and "C" not in d}
    for use in root.iter(f"{{{SVG}}}use"):
        lines = straight.get(use.get("href", ""))
        if lines is not None:
            use.tag = f"{{{SVG}}}path"
            use.set("d", _moved(lines, float(use.attrib.pop("x")), float(use.attrib.pop("y"))))
            del use.attrib["href"]
    for parent in root.iter():
        for defs in parent.findall(f"{{{SVG}}}defs"):
            if all(f"#{one.get('id')}" in straight for one in defs):
                parent.remove(defs)


def _moved(lines: str, right: float, down: float) -> str:
    return _POINT.sub(lambda at: f"{float(at[1]) + right:.1f} {float(at[2]) + down:.1f}", lines)


def _joined(children: list[ET.Element]) -> list[ET.Element]:
    """Say once what lines or markers beside each other have in common."""
    found: list[ET.Element] = []
    for key, group in groupby(children, lambda one: (one.tag, one.get("href"), one.get("class"))):
        ones, kind = list(group), key[0].removeprefix(f"{{{SVG}}}")
        if kind == "path" and not any(set(one.attrib) - {"d", "class"} for one in ones):
            ones[0].set("d", "".join(one.get("d", "") for one in ones))
            found.append(ones[0])
        elif kind == "use" and len(ones) > 1 and key[2] is not None:
            shared = ET.Element(f"{{{SVG}}}g", {"class": key[2]})
            for one in ones:
                del one.attrib["class"]
            shared.extend(ones)
            found.append(shared)
        else:
            found += ones
    return found


def _look(style: str, colours: dict[str, str]) -> str:
    """Return a look without what all have in common, its colours by name."""
    parts = []
    for part in filter(None, (one.strip() for one in style.split(";"))):
        key, _, value = part.partition(":")
        value = _NUMBER.sub(lambda number: f"{float(number[0]):.3g}", value.strip())
        if key == "font":
            size = re.search(r"[\d.]+px", value)
            parts.append(f"font-size:{size[0] if size else '10px'}")
        elif key not in _SAID_ONCE:
            parts.append(f"{key}:{_COLOUR.sub(lambda c: _named(c[0], colours), value)}")
    return ";".join(parts)


def _named(colour: str, colours: dict[str, str]) -> str:
    return f"var(--{colours.setdefault(colour, f'c{len(colours)}')})"


def _rounded(text: str) -> str:
    text = _NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), text)
    text = re.sub(r"\s*\n\s*|rotate\(-?0 [^)]*\)", "", text)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", text).strip()


def _steps(lines: re.Match[str]) -> str:
    """Return points that lines join as steps from each to the next, which are shorter numbers."""
    at = [round(10 * float(number)) for number in re.findall(r"[-.\d]+", lines[0])]
    steps = zip(at[2:], at[3:], at, at[1:], strict=False)
    told = [f"{(x - a) / 10:g} {(y - b) / 10:g}" for x, y, a, b in islice(steps, 0, None, 2)]
    return f"M{at[0] / 10:g} {at[1] / 10:g}l{' '.join(told)}".replace(" -", "-")


def _styles(looks: dict[str, str], colours: dict[str, str]) -> str:
    ink, dark_ink = LIGHT["ink"], DARK["ink"]
    light = "".join(f"--{name}:{_on_light(colour)};" for colour, name in colours.items())
    dark = "".join(f"--{name}:{_on_dark(colour)};" for colour, name in colours.items())
    return (
        f"svg{{color-scheme:light dark;--ink:{ink};{light}}}"
        f"text{{font-family:{FAMILY};font-size:10px;fill:var(--ink)}}"
        "path,use{stroke-linejoin:round}"
        + "".join(f".{name}{{{look}}}" for look, name in looks.items())
        + f"@media (prefers-color-scheme:dark){{svg{{--ink:{dark_ink};{dark}}}}}"
    )


def _is_grey(colour: str) -> bool:
    red, green, blue = to_rgb(colour)
    return max(red, green, blue) - min(red, green, blue) < 0.02


def _on_light(colour: str) -> str:
    return _between(LIGHT["ink"], LIGHT["page"], to_rgb(colour)[0]) if _is_grey(colour) else colour


def _on_dark(colour: str) -> str:
    if _is_grey(colour):
        return _between(DARK["ink"], DARK["page"], to_rgb(colour)[0])
    return next(
        mixed
        for mixed in (_between(colour, "#ffffff", share / 10) for share in range(11))
        if luminance(mixed) >= _READABLE
    )


def _between(one: str, other: str, share: float) -> str:
    pairs: Iterator[tuple[float, float]] = zip(to_rgb(one), to_rgb(other), strict=True)
    return to_hex([a + share * (b - a) for a, b in pairs])


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as contrast is computed from it."""
    linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
