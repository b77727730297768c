"""A drawing as Qt writes it, put right where Qt's file says it wrongly.

Qt's generator knows no clip but a painter's own, and writes that in the coordinates of the widget that was painted. So
each widget is painted by itself, after a mark, and gets the part of it that can be seen as a clip.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ropewalk.app.files.requests import FinishSvg, SvgPart

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
MARK: Final = "\ue000"
"""Begins the text that stands before what a widget paints; its number follows."""


def harmless(text: str) -> str:
    """A text without what no XML may hold."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text)


def finished_svg(request: FinishSvg) -> bytes:
    """What Qt has drawn, clipped, with its provenance, its size in pixels, and fonts to fall back to."""
    about, fallbacks = request.about, dict(request.fallbacks)
    for prefix, space in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(harmless(request.drawn))
    root.set("width", str(request.width))
    root.set("height", str(request.height))
    _clip(root, request.parts)
    for tag, text in (("metadata", about.json), ("desc", about.text), ("title", about.title)):
        for old in root.findall(_tag(tag)):
            root.remove(old)
        element = Element(_tag(tag))
        element.text = text
        root.insert(0, element)
    for image in root.iter(_tag("image")):
        image.set("style", "image-rendering:pixelated")
    for element in root.iter():
        family = element.get("font-family")
        if family in fallbacks:
            element.set("font-family", f"{family}, {fallbacks[family]}")
    _drop_empty(root)
    finished: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return finished


def _tag(name: str) -> str:
    return f"{{{SVG}}}{name}"


def _clip(root: Element, parts: tuple[SvgPart, ...]) -> None:
    """Gather what each widget painted into a group that ends where the widget does; take the marks out."""
    paths = {one.get("id"): one for one in root.iter(_tag("clipPath"))}
    defs = root.find(_tag("defs"))
    painted = root.find(_tag("g"))
    assert defs is not None
    assert painted is not None
    group = painted
    for child in list(painted):
        number = _mark(child)
        if number is not None:
            part = parts[number]
            group = Element(_tag("g"))
            if part.seen is not None:
                group.set("clip-path", f"url(#widget{number})")
                clip = ElementTree.SubElement(defs, _tag("clipPath"), {"id": f"widget{number}"})
                box = zip(("x", "y", "width", "height"), map(str, part.seen), strict=True)
                ElementTree.SubElement(clip, _tag("rect"), dict(box))
            painted.remove(child)
            painted.append(group)
        elif group is not painted:
            painted.remove(child)
            own = child.get("clip-path") or ""
            if own and len(group) and group[-1].get("clip-path") == own:
                group[-1].extend(child)  # one clip for all that is painted under it
                continue
            group.append(child)
            for path in paths.pop(own[5:-1], ()):
                path.set("transform", f"translate({part.x},{part.y})")


def _mark(element: Element) -> int | None:
    """The number of the widget that a mark announces, None where it is something painted.

    Where widgets paint nothing their marks stand together; the last of them counts.
    """
    texts = [words.text or "" for words in element.iter(_tag("text"))]
    marks = [text[len(MARK) :] for text in texts if text.startswith(MARK)]
    return int(marks[-1]) if marks else None


def _drop_empty(parent: Element) -> None:
    """Leave out the groups that Qt opened for a change of pen and drew nothing in, and clips of what is gone."""
    for child in list(parent):
        _drop_empty(child)
        if child.tag == _tag("g") and not len(child):
            parent.remove(child)
