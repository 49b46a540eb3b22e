"""The web chat in a real Chromium, against a small server that speaks its API, and once against the real one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attune.dialogue.readers import read
from attune.emotion.taxonomy import EMOTIONS, INTENTS
from attune.serve.settings import ServeSettings
from attune.web.headers import POLICY
from tests.serve.conftest import Running
from tests.serve.page_server import CARE, LICENCE, PAGE, PIECES, ChatServer

SAID = "My old dog died on Monday, and the house is so quiet."
WHOLE = "".join(PIECES)
CONTRAST = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")


def text_of(name: str) -> str:
    return PAGE.joinpath(name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ without a browser


def test_the_page_names_the_labels_of_the_taxonomy() -> None:
    families = re.search(r"FAMILIES = \{(.*?)\};", text_of("words.js"), re.DOTALL)
    intents = re.search(r"INTENTS = \{(.*?)\};", text_of("words.js"), re.DOTALL)
    assert families
    assert intents
    assert sorted(re.findall(r'"(\w+)"', families[1])) == sorted(EMOTIONS)
    assert re.findall(r"(\w+):", intents[1]) == list(INTENTS)
    for family in re.findall(r"(\w+):", families[1]):
        assert f"--{family}:" in text_of("base.css")


def test_the_page_reads_as_much_of_a_message_as_the_server() -> None:
    longest = re.search(r"LONGEST = ([\d_]+)", text_of("chat.js"))
    assert longest
    assert int(longest[1]) == ServeSettings().max_chars


def test_no_file_of_the_page_is_missing_names_another_origin_or_has_code_inside_markup() -> None:
    for file in PAGE.iterdir():
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r'"/static/([^"]+)"|from "\./([^"]+)"', text):
            assert PAGE.joinpath("".join(name)).is_file(), f"{file.name} names {name}"
        addresses = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
        assert not addresses, f"{file.name}: {addresses}"
    page = text_of("index.html")
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", page)
    assert "unsafe" not in POLICY


# ------------------------------------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def chat_server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_page(chromium: Any, chat_server: ChatServer) -> Iterator[Callable[..., Any]]:
    """Opens pages of their own; at the end none may have broken, asked elsewhere, or been stopped by the policy."""
    chat_server.reset()
    contexts, wrong, origins = [], [], set()

    def start(url: str = chat_server.url, width: int = 1280, height: int = 800, **more: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("request", lambda asked: origins.add(asked.url) if not asked.url.startswith((url, "blob:")) else None)
        page.goto(url)
        page.wait_for_selector("#system option", state="attached")
        return page

    yield start
    for context in contexts:
        context.close()
    assert wrong == []
    assert origins == set()


def say(page: Any, text: str = SAID) -> None:
    """Send a message by keyboard and wait until it is answered."""
    before = page.locator(".message.attune .actions").count()
    page.locator("#message").fill(text)
    page.keyboard.press("Enter")
    page.locator(".message.attune .actions").nth(before).wait_for()


def controls(page: Any) -> list[tuple[str, str]]:
    """Role and accessible name of every control, as the browser tells a screen reader."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    kinds = {"button", "textbox", "combobox", "link", "switch", "checkbox", "dialog", "log", "image", "img"}
    found = [node for node in tree if not node["ignored"] and node["role"]["value"] in kinds]
    return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in found]


@pytest.mark.slow
def test_policy_and_origin_are_watched(chromium: Any, chat_server: ChatServer) -> None:
    """The check that every test below ends with does see a breach."""
    page = chromium.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(chat_server.url)
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.wait_for_timeout(100)
    page.close()
    assert any("Content Security Policy" in text for text in said)


@pytest.mark.slow
class TestTalking:
    def test_a_reply_grows_as_it_comes_and_goes_on_from_what_was_said(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.going.clear()
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_text(PIECES[0].strip()).wait_for()
        assert page.inner_text(".message.attune .bubble").strip() == PIECES[0].strip()
        assert page.is_visible("#stop")
        assert page.is_hidden("#send")
        chat_server.going.set()
        page.wait_for_selector(".message.attune .actions")
        assert page.inner_text(".message.attune .bubble") == WHOLE
        assert page.evaluate("document.activeElement.id") == "message"
        say(page, "Eleven years.")
        first, second = chat_server.bodies("/v1/chat/completions")
        assert first == {
            "model": "attune",
            "messages": [{"role": "user", "content": SAID}],
            "stream": True,
            "store": False,
        }
        assert [one["content"] for one in second["messages"]] == [SAID, WHOLE, "Eleven years."]

    def test_stopping_keeps_what_was_said_and_frees_the_server(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.going.clear()
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_text(PIECES[0].strip()).wait_for()
        page.keyboard.press("Escape")
        page.get_by_text("Stopped here.").wait_for()
        chat_server.going.set()
        assert page.inner_text(".message.attune .bubble").strip() == PIECES[0].strip()
        assert page.is_visible("#send")
        assert chat_server.stopped.wait(10)

    def test_the_pickers_are_sent_and_another_reply_weighs_several(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        page = open_page()
        page.select_option("#intent", "questioning")
        page.select_option("#system", "kemp")
        say(page)
        page.get_by_role("button", name="Another reply").click()
        page.get_by_text("weighing several").wait_for(state="hidden")
        page.get_by_role("button", name="Why this reply").click()
        assert page.locator(".candidates li").count() == 3
        assert page.inner_text(".candidates .chosen").startswith(PIECES[0].strip())
        first, again = chat_server.bodies("/v1/chat/completions")
        assert (first["intent"], first["model"], first["stream"]) == ("questioning", "kemp", True)
        assert again == {**first, "stream": False, "seed": 1}

    def test_what_people_write_stays_text(self, open_page: Callable[..., Any]) -> None:
        page = open_page()
        say(page, "<img src=x onerror=alert(1)> <b>bold</b> &amp; שלום 🙂")
        assert page.inner_text(".person .bubble") == "<img src=x onerror=alert(1)> <b>bold</b> &amp; שלום 🙂"
        assert page.locator(".bubble img, .bubble b").count() == 0

    def test_a_reload_keeps_the_conversation_and_a_new_one_can_be_undone(self, open_page: Callable[..., Any]) -> None:
        page = open_page()
        say(page)
        page.reload()
        assert page.inner_text(".message.attune .bubble") == WHOLE
        assert "46 %" in page.inner_text(".person .ribbon")
        page.click("#new")
        assert page.locator(".message").count() == 0
        assert page.is_visible("#welcome")
        page.get_by_role("button", name="Bring it back").click()
        assert page.inner_text(".message.attune .bubble") == WHOLE

    def test_the_export_is_a_dialogue_that_attune_reads(self, open_page: Callable[..., Any], tmp_path: Path) -> None:
        page = open_page()
        say(page)
        with page.expect_download() as waited:
            page.click("#export")
        file = tmp_path / "chat.json"
        waited.value.save_as(file)
        (dialogue,) = read(file)
        assert [(turn.role, turn.text) for turn in dialogue.turns] == [("speaker", SAID), ("listener", WHOLE)]
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert kept["messages"][0]["emotion"] == "sad"
        assert kept["messages"][1]["attune"]["licence"] == LICENCE


@pytest.mark.slow
class TestHearing:
    def test_the_emotion_is_shown_in_words_while_the_reply_is_made(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.going.clear()
        page = open_page()
        words = page.locator("#wheel .flower").first.locator("text").all_text_contents()
        assert sorted(words) == sorted(EMOTIONS)
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.wait_for_selector(".person .ribbon")
        assert page.is_visible("#stop")  # it is being answered
        assert page.locator(".person .bars rect").count() == len(EMOTIONS)
        assert re.sub(r"\s+", " ", page.inner_text(".person .ribbon")).endswith("sad 46 % lonely 21 % devastated 12 %")
        assert page.inner_text("#sounds") == "You may feel sad, perhaps lonely."
        assert page.get_attribute("#wheel .flower >> nth=0", "aria-label").startswith("sad 46 %, lonely 21 %")
        chat_server.going.set()

    def test_the_drawer_opens_and_closes_by_keyboard_and_says_why(self, open_page: Callable[..., Any]) -> None:
        page = open_page()
        say(page)
        why = page.get_by_role("button", name="Why this reply")
        why.focus()
        page.keyboard.press("Enter")
        drawer = page.get_by_role("dialog", name="Why this reply")
        drawer.wait_for()
        assert page.evaluate("document.getElementById('why').contains(document.activeElement)")
        said = re.sub(r"\s+", " ", drawer.inner_text())
        for words in ("sympathizing", "People who lose a pet", "died causes grief", "sad", "530 ms", LICENCE):
            assert words in said
        graph = drawer.get_by_role("img", name="Emotional context graph")
        assert "died causes grief" in graph.get_attribute("aria-label")
        assert {"dog", "died", "friend", "grief", "cry", "CLS"} <= set(graph.locator("text").all_text_contents())
        for _ in range(6):  # the focus stays inside
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement === document.body || why.contains(document.activeElement)")
        page.keyboard.press("Escape")
        drawer.wait_for(state="hidden")
        assert page.evaluate("document.activeElement.textContent") == "Why this reply"

    def test_a_careful_message_is_set_apart_and_its_help_is_a_link(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.mode = "care"
        page = open_page()
        say(page, "I do not want to be here any more.")
        assert CARE.split("\n")[0] in page.inner_text(".message.care .bubble")
        number, address = page.locator(".message.care a").all()
        assert number.get_attribute("href") == "tel:116123"
        assert address.get_attribute("href") == "https://findahelpline.com"
        assert address.get_attribute("rel") == "noopener noreferrer"
        assert page.get_by_role("button", name="Another reply").count() == 0
        assert "not generated" in page.inner_text(".message.care .note")
        page.get_by_role("button", name="Why this reply").click()
        assert "not wanting to live" in page.inner_text("#why .care")
        assert (
            page.locator("#why .graph, #why .concepts").count() == 0
        )  # nobody at risk is shown what "die" brings to mind


@pytest.mark.slow
class TestFeedback:
    def test_nothing_is_sent_without_consent_and_all_of_it_with(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        page = open_page()
        say(page)
        switch = page.locator(".feedback .consent")
        page.get_by_role("button", name="This did not help").click()
        assert switch.is_visible()
        assert not switch.is_checked()
        page.get_by_label("I would have said", exact=True).fill("I am so sorry. Tell me about her.")
        page.get_by_role("button", name="Send feedback").click()
        page.get_by_text("Nothing was sent").wait_for()
        assert chat_server.bodies("/v1/feedback") == []
        switch.check()
        page.get_by_role("button", name="Send feedback").click()
        page.get_by_text("Kept with your consent").wait_for()
        (sent,) = chat_server.bodies("/v1/feedback")
        assert sent == {
            "reply_id": sent["reply_id"],
            "messages": [{"role": "user", "content": SAID}, {"role": "assistant", "content": WHOLE}],
            "thumb": "down",
            "better": "I am so sorry. Tell me about her.",
            "consent": True,
        }
        assert sent["reply_id"]
        page.reload()  # consent is asked for again
        page.wait_for_selector(".message.attune .actions")
        page.click("#open-about")
        assert not page.locator("#about .consent").is_checked()

    def test_a_server_that_keeps_nothing_is_asked_for_nothing(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.stores = False
        page = open_page()
        say(page)
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("this server keeps nothing").wait_for()
        assert page.get_by_role("button", name="This helped").get_attribute("aria-pressed") == "true"
        assert chat_server.bodies("/v1/feedback") == []

    def test_a_refusal_of_the_server_is_told(self, open_page: Callable[..., Any], chat_server: ChatServer) -> None:
        page = open_page()
        say(page)
        chat_server.stores = False
        page.click("#open-about")
        page.locator("#about .consent").check()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Not kept. This server keeps nothing.").wait_for()


@pytest.mark.slow
class TestTrouble:
    def test_a_busy_server_is_asked_again_after_the_time_it_names(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.mode, chat_server.wait = "busy", 3
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("Many people are talking").wait_for()
        assert re.search(r"sent again in [123] s", page.inner_text("#notice"))
        page.wait_for_selector(".message.attune .actions")
        assert page.inner_text("#notice") == ""
        assert len(chat_server.bodies("/v1/chat/completions")) == 2

    def test_a_server_that_is_away_loses_no_words(self, open_page: Callable[..., Any], chat_server: ChatServer) -> None:
        chat_server.mode = "away"
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
        assert page.inner_text(".person .bubble") == SAID
        chat_server.mode = "fine"
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector(".message.attune .actions")
        assert page.locator(".message").count() == 2

    def test_what_is_too_long_goes_back_into_the_box(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.mode = "long"
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("too many words").wait_for()
        assert page.input_value("#message") == SAID
        assert page.locator(".message").count() == 0
        page.fill("#message", "word " * 2_500)
        assert "2,499 characters too many" in page.inner_text("#count")
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("at most 10,000").wait_for()
        assert len(chat_server.bodies("/v1/chat/completions")) == 1

    def test_a_reply_that_breaks_off_is_kept_and_can_be_asked_for_again(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.mode = "break"
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("broke off").wait_for()
        assert page.inner_text(".message.attune .bubble") == PIECES[0].strip()
        chat_server.mode = "fine"
        page.get_by_role("button", name="Try again").click()
        page.get_by_text("weighing several").wait_for(state="hidden")
        assert page.locator(".message.attune").count() == 1

    def test_a_key_is_asked_for(self, open_page: Callable[..., Any], chat_server: ChatServer) -> None:
        page = open_page()
        chat_server.key = "secret"
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_label("Key").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector(".message.attune .actions")
        assert page.inner_text(".message.attune .bubble") == WHOLE


@pytest.mark.slow
class TestForEverybody:
    def test_every_control_has_a_name_and_the_focus_goes_in_reading_order(self, open_page: Callable[..., Any]) -> None:
        page = open_page()
        order = []
        for _ in range(12):
            page.keyboard.press("Tab")
            order.append(
                page.evaluate("(document.activeElement.id || document.activeElement.textContent).slice(0, 24)")
            )
        starters = page.locator("#starters button").all_text_contents()
        begin = ["Skip to the message box", "new", "dark", "open-about", "scroll"]
        assert order == [*begin, *(text[:24] for text in starters), "message", "intent", "system"]
        say(page)
        page.get_by_role("button", name="I would have said").click()
        page.click("#open-about")
        names = controls(page)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Why this reply").click()
        names += controls(page)
        page.keyboard.press("Escape")
        names += controls(page)
        assert len(names) > 20
        assert [one for one in names if not one[1].strip()] == []

    def test_a_screen_reader_hears_each_reply_once_and_whole(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        chat_server.going.clear()
        page = open_page()
        page.fill("#message", SAID)
        page.keyboard.press("Enter")
        page.get_by_text(PIECES[0].strip()).wait_for()
        assert page.get_attribute("#scroll", "aria-live") == "off"  # its pieces are not read out
        assert page.get_attribute("#spoken", "aria-live") == "polite"
        assert page.text_content("#spoken") == ""
        chat_server.going.set()
        page.wait_for_selector(".message.attune .actions")
        assert page.text_content("#spoken") == f"Attune: {WHOLE}"
        assert page.locator(".message.attune[aria-busy]").count() == 0

    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_words_stand_out_from_what_is_behind_them(self, open_page: Callable[..., Any], theme: str) -> None:
        page = open_page(color_scheme=theme, reduced_motion="reduce")
        poor = page.evaluate(CONTRAST)
        say(page)
        page.get_by_role("button", name="I would have said").click()
        for family in ("joy", "warmth", "longing", "sorrow", "shame", "anger", "fear", "expectation"):
            page.evaluate("name => document.documentElement.style.setProperty('--felt', `var(--${name})`)", family)
            poor += page.evaluate(CONTRAST)
        page.get_by_role("button", name="Why this reply").click()
        poor += page.evaluate(CONTRAST)
        assert poor == []

    def test_dark_mode_follows_the_system_until_somebody_chooses(self, open_page: Callable[..., Any]) -> None:
        page = open_page(color_scheme="dark")
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(paper)
        button = page.get_by_role("button", name="Dark mode")
        assert button.get_attribute("aria-pressed") == "true"
        button.click()
        light = page.evaluate(paper)
        assert light != dark
        page.reload()
        assert page.evaluate(paper) == light
        assert button.get_attribute("aria-pressed") == "false"

    def test_a_telephone_shows_everything_without_scrolling_sideways(self, open_page: Callable[..., Any]) -> None:
        page = open_page(width=360, height=640)
        parts = "[document.documentElement, document.getElementById('scroll'), document.getElementById('why-body')]"
        wide = f"Math.max(...{parts}.map(one => one.scrollWidth - one.clientWidth))"
        assert page.evaluate(wide) <= 0
        say(page, "a" * 300 + " died")
        page.get_by_role("button", name="I would have said").click()
        assert page.evaluate(wide) <= 0
        page.get_by_role("button", name="Why this reply").click()
        assert page.evaluate(wide) <= 0
        assert page.locator(".graph").bounding_box()["width"] <= 360
        page.keyboard.press("Escape")
        for name in ("New conversation", "Export", "Dark mode", "Send"):
            box = page.get_by_role("button", name=name, exact=True).bounding_box()
            assert box["x"] + box["width"] <= 360
            assert min(box["width"], box["height"]) >= 40


@pytest.mark.slow
def test_the_real_app_talks_with_the_page(open_page: Callable[..., Any], serve: Callable[..., Running]) -> None:
    running = serve()
    page = open_page(running.url)
    assert running.agent.licence in page.inner_text("#licence")
    page.select_option("#intent", "consoling")
    say(page)
    assert page.inner_text(".message.attune .bubble") == f"I heard: {SAID}"
    assert page.inner_text("#sounds") == "You sound sad."
    page.get_by_role("button", name="Another reply").click()
    page.get_by_text("weighing several").wait_for(state="hidden")
    page.get_by_role("button", name="Why this reply").click()
    assert "consoling" in page.get_by_role("dialog", name="Why this reply").inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="This helped").click()
    page.get_by_text("this server keeps nothing").wait_for()
