"""From a chart to SVG that may stand in a page: drawn offline at report time, then let through by name only.

What the drawing library writes is parsed and rebuilt from the elements and attributes listed here; everything else is
left out. Text stays text. So nothing a server or a plan put into a label can become an element of the page.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import altair as alt
import vl_convert
from markupsafe import Markup

from iolab.report import palette

# Around a picture that stands alone.
MARGIN = 12
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
# Control characters are not XML, and with bidirectional overrides a label could pretend to be another one.
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)

ElementTree.register_namespace("", SVG)


def clean(text: str) -> str:
    """Text from outside with every character that cannot be seen replaced by the one that says so."""
    return UNSEEN.sub("\ufffd", text)


def inline(chart: alt.TopLevelMixin, title: str, description: str) -> Markup:
    """The chart as an SVG element for the page. `description` says in words what is to be seen."""
    root = _drawn(chart)
    for element in root.iter():
        _take_roles(element)
    _label(root, title, description)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def standalone(chart: alt.TopLevelMixin, title: str, description: str) -> str:
    """The chart as an SVG file with a ground and a margin of its own, fit for any page, light or dark."""
    root = _drawn(chart)
    width, height = (int(float(root.get(side, "0"))) + 2 * MARGIN for side in ("width", "height"))
    box = {"x": str(-MARGIN), "y": str(-MARGIN), "width": str(width), "height": str(height), "rx": "8"}
    root.insert(0, ElementTree.Element(f"{{{SVG}}}rect", {**box, "fill": palette.light("ground")}))
    root.set("viewBox", f"{-MARGIN} {-MARGIN} {width} {height}")
    # Drawn for a phone, it is too small for the width of a page.
    root.set("width", str(2 * width))
    root.set("height", str(2 * height))
    root.set("font-family", "system-ui, sans-serif")
    _label(root, title, description)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _drawn(chart: alt.TopLevelMixin) -> ElementTree.Element:
    # The tests hold every kind of chart against the schema; to do it for each of a page's would take seconds.
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
    """The names a screen reader says instead of the marks."""
    root.set("role", "img")
    for name, text in (("desc", description), ("title", title)):
        element = ElementTree.Element(f"{{{SVG}}}{name}")
        element.text = clean(text)
        root.insert(0, element)
