"""The web chat in a real Chromium, against a small server that speaks its API, and once against the real one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attune.dialogue.readers import read
from attune.emotion.taxonomy import EMOTIONS, INTENTS
from attune.respond.guard.answers import Answers
from attune.respond.guard.classifier import HEARD
from attune.respond.guard.rules import read_data
from attune.serve.settings import ServeSettings
from attune.web.headers import POLICY
from tests.serve.browsing import SAID, WHOLE, begun, controls, links, links_in, say
from tests.serve.conftest import Running
from tests.serve.page_server import CARE, LICENCE, PAGE, PIECES, ChatServer

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
        page = begun(open_page(), chat_server)
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
        page = begun(open_page(), chat_server)
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
        assert CARE in page.inner_text(".message.care .bubble")
        assert links(page, ".message.care .bubble") == [("116 123", "tel:116123"), ("999", "tel:999")]
        assert page.get_by_role("button", name="Another reply").count() == 0
        assert "not generated" in page.inner_text(".message.care .note")
        page.get_by_role("button", name="Why this reply").click()
        assert "not wanting to live" in page.inner_text("#why .care")
        assert (
            page.locator("#why .graph, #why .concepts").count() == 0
        )  # nobody at risk is shown what "die" brings to mind

    def test_every_number_of_every_country_is_a_link_and_nothing_else_is(self, open_page: Callable[..., Any]) -> None:
        texts = []
        for country in read_data("helplines.yaml"):
            answers = Answers(None if country == "default" else country)
            for risk in HEARD[1:]:
                said: list[str] = []
                while (text := answers.to_risk(risk, said)) not in said:
                    said.append(text)
                texts += said
        assert len(texts) > 500
        for text, found in zip(texts, links_in(open_page(), texts), strict=True):
            parts = re.findall(r"https://[a-z.]+|\d[\d -]*\d", text.replace("1800RESPECT", "RESPECT"))  # a name
            address = [part if part.startswith("https:") else "tel:" + re.sub("[ -]", "", part) for part in parts]
            assert found == [[part.replace("https://", ""), to] for part, to in zip(parts, address)], text

    @pytest.mark.parametrize(
        ("text", "addresses"),
        [
            ("text HOME to 741741, or call 1-800-799-7233", ["sms:741741", "tel:18007997233"]),
            ("call or text 988; text or call 1737", ["tel:988", "tel:1737"]),
            ("+44 20 7946 0000 or (212) 555-1234 (from abroad)", ["tel:+442079460000", "tel:2125551234"]),
            ("Samaritans, 116 123 24/7", ["tel:116123"]),
            ("Lifeline, 1995, 24 hours a day; 142, 7 days a week", ["tel:1995", "tel:142"]),
            ("116 123 24 hours a day", ["tel:116123"]),
            ("since 1953, in 2024, 2020-2024, on 2026-01-31, 10-18, 10:00-18:00, 1,000 or 200 people, 100 %", []),
            ("+49 (0)30 123456, 1800RESPECT, B52000", []),  # better none than a wrong one
        ],
    )
    def test_what_is_no_telephone_number_is_no_link(
        self, open_page: Callable[..., Any], text: str, addresses: list[str]
    ) -> None:
        (found,) = links_in(open_page(), [text])
        assert [address for _, address in found] == addresses

    def test_an_address_opens_apart(self, open_page: Callable[..., Any], chat_server: ChatServer) -> None:
        chat_server.mode, chat_server.care = "care", Answers().to_risk("abuse", said=[])
        page = open_page()
        say(page, "He hit me again.")
        address = page.locator(".message.care a[href^=https]")
        assert address.get_attribute("href") == "https://findahelpline.com"
        assert address.get_attribute("rel") == "noopener noreferrer"
        assert address.get_attribute("target") == "_blank"


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
        page = begun(open_page(), chat_server)
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
