"""What the tests of the page do in a browser again and again."""

from __future__ import annotations

from typing import Any

from tests.serve.page_server import PIECES, ChatServer

SAID = "My old dog died on Monday, and the house is so quiet."
WHOLE = "".join(PIECES)


def say(page: Any, text: str = SAID) -> None:
    """Send a message by keyboard and wait until it is answered."""
    before = page.locator(".message.attune .actions").count()
    page.locator("#message").fill(text)
    page.keyboard.press("Enter")
    page.locator(".message.attune .actions").nth(before).wait_for()


def begun(page: Any, chat_server: ChatServer) -> Any:
    """The page with a message sent, and its reply held back after the first piece until `chat_server.going` is set."""
    chat_server.going.clear()
    page.fill("#message", SAID)
    page.keyboard.press("Enter")
    page.get_by_text(PIECES[0].strip()).wait_for()
    return page


def agree(page: Any, agreed: bool = True) -> None:
    """Say whether feedback may be kept, in the sheet "About and privacy"."""
    page.click("#open-about")
    page.locator("#about .consent").set_checked(agreed)
    page.keyboard.press("Escape")


def links(page: Any, inside: str) -> list[tuple[str, str]]:
    """Text and address of every link in an element."""
    return [(link.inner_text(), link.get_attribute("href")) for link in page.locator(f"{inside} a").all()]


def links_in(page: Any, texts: list[str]) -> list[list[list[str]]]:
    """What the page makes links of in texts, each as [text, address]."""
    found = page.evaluate(
        """async texts => {
            const { linked } = await import("/static/links.js");
            const shown = texts.map(text => { const p = document.createElement("p"); p.append(...linked(text)); return p; });
            const wrong = shown.some((p, i) => p.textContent !== texts[i].replaceAll("https://", ""));
            return wrong ? null : shown.map(p => [...p.children].map(a => [a.textContent, a.getAttribute("href")]));
        }""",
        texts,
    )
    assert found is not None, "words were lost"
    return found  # type: ignore[no-any-return]


def controls(page: Any) -> list[tuple[str, str]]:
    """Role and accessible name of every control, as the browser tells a screen reader."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    kinds = {"button", "textbox", "combobox", "link", "switch", "checkbox", "dialog", "log", "image", "img"}
    found = [node for node in tree if not node["ignored"] and node["role"]["value"] in kinds]
    return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in found]
