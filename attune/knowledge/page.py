"""Pages that stand alone: HTML and SVG from nodes that escape whatever they are given, styles inside, no request to anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from string import Template
from xml.etree import ElementTree

Node = ElementTree.Element
# What a page cannot hold: control characters and halves of a character (from bytes that are not UTF-8).
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def node(tag: str, attributes: Mapping[str, object] | None = None, *children: Node | str) -> Node:
    """An element of a page. Texts stay texts, whatever they contain.

    >>> as_html(node("p", {"class": "turn"}, "I ", node("mark", None, "<love>"), " it"))
    '<p class="turn">I <mark>&lt;love&gt;</mark> it</p>'
    """
    made = ElementTree.Element(tag, {key: printable(_shown(value)) for key, value in (attributes or {}).items()})
    for child in children:
        if not isinstance(child, str):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + printable(child)
        else:
            made.text = (made.text or "") + printable(child)
    return made


def printable(text: str) -> str:
    """A text in which characters that cannot be written stand as a replacement character.

    >>> printable("a\\x00b\\ud800")
    'a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}'
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def as_html(*nodes: Node) -> str:
    """Nodes as HTML text."""
    return "".join(ElementTree.tostring(one, encoding="unicode", method="html") for one in nodes)


def page(title: str, *body: Node, style: str = "") -> str:
    """A whole page with the styles inside it; `style` are those that it alone needs."""
    head, styles = as_html(node("title", None, title)), _template("page.css") + style
    return Template(_template("page.html")).substitute(title=head, style=styles, body=as_html(*body))


def header(verb: str, title: str, lead: str) -> Node:
    """What a page begins with."""
    return node(
        "header",
        None,
        node("p", {"class": "eyebrow"}, f"Attune · {verb}"),
        node("h1", None, title),
        node("p", {"class": "lead"}, lead),
    )


def footer(text: str) -> Node:
    """What a page ends with."""
    return node("footer", None, f"{text} Made by Attune; this page asks nothing of any other computer.")


def section(title: str, note: str, *content: Node) -> Node:
    """A part of a page."""
    notes = [node("p", {"class": "note"}, note)] if note else []
    return node("section", None, node("h2", None, title), *notes, *content)


def legend(*entries: tuple[str, str]) -> Node:
    """What the colours mean: (class, text) each."""
    return node(
        "ul", {"class": "legend"}, *(node("li", None, node("i", {"class": kind}), text) for kind, text in entries)
    )


def bar(*parts: tuple[str, float], label: str = "") -> Node:
    """A bar of one or more parts (class, share of the whole width); without a label it only repeats a number beside it."""
    shown = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    return node(
        "div",
        {"class": "bar", **shown},
        *(node("span", {"class": kind, "style": f"--w:{max(width, 0.0):.3f}"}) for kind, width in parts),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Node]], kind: str = "") -> Node:
    """A table; the cells are given as nodes."""
    names = node("tr", None, *(node("th", {"scope": "col"}, name) for name in head))
    body = (node("tr", None, *row) for row in rows)
    return node("table", {"class": kind} if kind else None, node("thead", None, names), node("tbody", None, *body))


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "word"), counted(12000, "word")
    ('1 word', '12,000 words')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _template(name: str) -> str:
    return resources.files("attune.knowledge").joinpath("data", "templates", name).read_text(encoding="utf-8")


def _shown(value: object) -> str:
    """Coordinates with one decimal place are enough, and keep a drawing small."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
