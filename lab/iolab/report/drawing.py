"""Turns charts into SVG for a page: drawn offline at report time, then filtered by allowlists.

The output of the drawing library is parsed and rebuilt from the elements and attributes listed here; everything else is
dropped. Text stays text, so no label from a server or a plan can become an element of the page.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from xml.etree import ElementTree

import altair as alt
import vl_convert
from markupsafe import Markup

from iolab.report import palette

# The margin of a standalone picture.
MARGIN = 20
GAP = 36
SVG = "http://www.w3.org/2000/svg"
TAGS = frozenset({"svg", "g", "path", "line", "rect", "circle", "text", "tspan"})
ATTRIBUTES = frozenset(
    {
        *(
            "d",
            "dx",
            "dy",
            "x",
            "x1",
            "x2",
            "y",
            "y1",
            "y2",
            "cx",
            "cy",
            "r",
            "width",
            "height",
            "transform",
            "viewBox",
        ),
        *("fill", "fill-opacity", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-opacity", "stroke-width"),
        *("opacity", "text-anchor", "font-size", "font-weight"),
    }
)
# Numbers, lengths, colours, path data and transforms; no quotes, no slashes, no colons.
VALUE = re.compile(r"[-+.,#%()\w\s]*", re.ASCII)
COORDINATE = re.compile(r"-?\d+\.\d{2,}")
ROLES = {shade.light: role for role, shade in palette.SHADES.items()}
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
# Control characters are not XML, and bidirectional overrides could make one label look like another.
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)

ElementTree.register_namespace("", SVG)


def clean(text: str) -> str:
    """Text from outside with a visible replacement for every invisible character."""
    return UNSEEN.sub("\ufffd", text)


def inline(chart: alt.TopLevelMixin, title: str, description: str) -> Markup:
    """The chart as an SVG element for the page. `description` is its text alternative."""
    root = _drawn(chart)
    for element in root.iter():
        _take_roles(element)
    _label(root, title, description)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def standalone(
    panels: Sequence[tuple[str, alt.TopLevelMixin]],
    title: str,
    subtitle: str,
    notes: Sequence[str],
    description: str,
) -> str:
    """Charts beside each other as an SVG file with its own background, fit for any page, light or dark.

    Words are wrapped by counting characters, because the font is not known here.
    """
    roots = [(heading, _drawn(chart)) for heading, chart in panels]
    width = sum(int(float(root.get("width", "0"))) for _, root in roots) + GAP * (len(roots) - 1)
    picture = ElementTree.Element(f"{{{SVG}}}svg")
    y = _paragraph(picture, title, width, 0, size=16, role="ink", bold=True)
    y = _paragraph(picture, subtitle, width, y + 4, size=13, role="ink") + 12
    x, bottom = 0, y
    for heading, root in roots:
        _paragraph(picture, heading, width // len(roots), y, size=12, role="ink", bold=True, x=x)
        group = ElementTree.SubElement(picture, f"{{{SVG}}}g", {"transform": f"translate({x},{y + 24})"})
        group.extend(list(root))
        bottom = max(bottom, y + 24 + int(float(root.get("height", "0"))))
        x += int(float(root.get("width", "0"))) + GAP
    y = bottom + 8
    for note in notes:
        y = _paragraph(picture, note, width, y, size=11, role="muted")
    box = {"x": -MARGIN, "y": -MARGIN, "width": width + 2 * MARGIN, "height": y + 2 * MARGIN}
    framed = {name: str(value) for name, value in box.items()}
    ground = {**framed, "rx": "8", "fill": palette.light("ground"), "stroke": palette.light("grid")}
    picture.insert(0, ElementTree.Element(f"{{{SVG}}}rect", ground))
    picture.set("viewBox", " ".join(framed.values()))
    picture.set("width", framed["width"])
    picture.set("height", framed["height"])
    picture.set("font-family", "system-ui, sans-serif")
    _label(picture, title, description)
    return ElementTree.tostring(picture, encoding="unicode") + "\n"


def _paragraph(
    parent: ElementTree.Element, text: str, width: int, y: int, *, size: int, role: str, bold: bool = False, x: int = 0
) -> int:
    """Writes lines of text from `y` on and returns the next free `y`."""
    characters = int(width / (size * (0.58 if bold else 0.53)))
    for line in textwrap.wrap(clean(text), characters):
        y += round(size * 1.35)
        attributes = {"x": str(x), "y": str(y - round(size * 0.3)), "font-size": str(size), "fill": palette.light(role)}
        element = ElementTree.SubElement(parent, f"{{{SVG}}}text", attributes)
        if bold:
            element.set("font-weight", "600")
        element.text = line
    return y


def _drawn(chart: alt.TopLevelMixin) -> ElementTree.Element:
    # Tests validate every kind of chart against the schema; validating each chart of a page would take seconds.
    text = vl_convert.vegalite_to_svg(chart.to_dict(validate=False), vl_version=VEGA_LITE)
    root = ElementTree.fromstring(text)
    _let_through(root)
    return root


def _let_through(element: ElementTree.Element) -> None:
    element.tag = f"{{{SVG}}}{_name(element)}"
    for name, value in list(element.attrib.items()):
        if name not in ATTRIBUTES or not VALUE.fullmatch(value):
            del element.attrib[name]
        elif "opacity" not in name:
            element.set(name, COORDINATE.sub(lambda number: f"{float(number[0]):.1f}", value))
    for child in list(element):
        if _name(child) not in TAGS or not _shows(child):
            element.remove(child)
        else:
            _let_through(child)
            if _name(child) == "g" and len(child) == 0:
                element.remove(child)


def _name(element: ElementTree.Element) -> str:
    namespace, _, name = element.tag.rpartition("}")
    return name if namespace == f"{{{SVG}" else ""


def _shows(element: ElementTree.Element) -> bool:
    """Whether an element leaves a mark: the library also writes empty frames and hidden labels."""
    if element.get("display") == "none" or element.get("opacity") == "0":
        return False
    if _name(element) == "text":
        return bool("".join(element.itertext()).strip())
    if _name(element) in ("path", "rect"):
        paint = {element.get("fill", "none"), element.get("stroke", "none")} - {"none", "transparent"}
        return bool(paint) and element.get("d") != ""
    return True


def _take_roles(element: ElementTree.Element) -> None:
    """Replaces each colour of the palette by the class of its role."""
    classes = []
    for attribute, prefix in (("fill", "f"), ("stroke", "s")):
        role = ROLES.get(element.get(attribute, ""))
        if role is not None:
            classes.append(f"{prefix}-{role}")
            del element.attrib[attribute]
    if classes:
        element.set("class", " ".join(classes))


def _label(root: ElementTree.Element, title: str, description: str) -> None:
    """The names that screen readers say instead of the marks."""
    root.set("role", "img")
    for name, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(f"{{{SVG}}}{name}")
        element.text = clean(text)
        root.insert(0, element)
