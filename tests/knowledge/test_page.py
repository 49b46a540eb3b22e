from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.knowledge.page import as_html, bar, legend, node, page, printable, section, table

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Outline(HTMLParser):
    """Reads a page as a browser would: its tags, attributes and texts; complains when tags do not close."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(), st.text())
def test_any_text_comes_out_of_a_page_as_it_went_in(text: str, attribute: str) -> None:
    seen = Outline(as_html(node("p", {"title": attribute}, text)))
    assert seen.tags == ["p"]
    assert "".join(seen.texts).replace("\r\n", "\n").replace("\r", "\n") == printable(text).replace(
        "\r\n", "\n"
    ).replace("\r", "\n")
    assert seen.attributes == [("title", printable(attribute))]


@given(st.text(alphabet=st.characters(codec=None)))
def test_what_is_printable_can_be_written_as_utf_8(text: str) -> None:
    printable(text).encode()
    assert "\x1b" not in printable(text)


def test_texts_between_elements_stay_in_their_order() -> None:
    made = node("p", None, "a", "b", node("b", None, "c"), "d", "e", node("i", None), "f")
    assert as_html(made) == "<p>ab<b>c</b>de<i></i>f</p>"


def test_coordinates_are_short_and_numbers_whole_where_they_can_be() -> None:
    assert as_html(node("circle", {"cx": 1.04, "cy": 2.0, "r": 3})) == '<circle cx="1" cy="2" r="3"></circle>'


def test_a_page_stands_alone() -> None:
    text = page("A <title>", section("One", "note", bar(("one", 0.5), label="half"), legend(("one", "this"))))
    seen = Outline(text)
    assert text.startswith("<!doctype html>")
    assert "A <title>" in "".join(seen.texts)
    assert not {"script", "link", "img", "iframe"} & set(seen.tags)
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_a_bar_with_a_label_is_an_image_and_one_without_is_hidden_from_readers() -> None:
    assert ("role", "img") in Outline(as_html(bar(("one", 0.2), label="a fifth"))).attributes
    assert ("aria-hidden", "true") in Outline(as_html(bar(("one", 0.2)))).attributes


def test_a_bar_is_never_negative() -> None:
    assert "--w:0.000" in as_html(bar(("one", -0.4)))


@pytest.mark.parametrize("rows", [[], [(node("td", None, "a"),), (node("td", None, "b"),)]])
def test_a_table_has_a_head_and_its_rows(rows: list[tuple[object]]) -> None:
    assert Outline(as_html(table(("x",), rows))).tags.count("tr") == 1 + len(rows)  # type: ignore[arg-type]
