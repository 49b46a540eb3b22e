"""Feedback on the page: what is sent, kept, taken back and exported, in a real Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serve.browsing import SAID, WHOLE, agree, begun, say
from tests.serve.conftest import Running, until
from tests.serve.page_server import ChatServer


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
            "model": "attune",
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

    def test_what_is_kept_names_its_system_and_can_be_erased_by_the_id_that_is_shown(
        self, open_page: Callable[..., Any], keeping: Running, tmp_path: Path
    ) -> None:
        store = keeping.app.state.serving.store
        page = open_page(keeping.url)
        page.select_option("#system", "kemp")
        say(page)
        page.select_option("#system", "fake")  # what is chosen for the next reply says nothing about this one
        agree(page)
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Kept with your consent").wait_for()
        (kept,) = store.export_feedback()
        assert (kept["thumb"], kept["system"]) == ("up", "kemp")
        assert page.inner_text(".about-reply code") == kept["id"]
        page.get_by_role("button", name="This did not help").click()
        until(lambda: next(store.export_feedback())["thumb"] == "down")
        page.reload()
        assert page.inner_text(".about-reply code") == kept["id"]  # what was written down still holds
        with page.expect_download() as waited:
            page.click("#export")
        waited.value.save_as(tmp_path / "chat.json")
        assert json.loads((tmp_path / "chat.json").read_text())["messages"][1]["feedback"] == kept["id"]
        assert store.erase_feedback(kept["id"])["feedback"] == 1

    def test_a_reply_that_was_stopped_has_a_system_and_an_id_too(
        self, open_page: Callable[..., Any], chat_server: ChatServer
    ) -> None:
        page = begun(open_page(), chat_server)
        page.click("#stop")
        chat_server.going.set()
        agree(page)
        page.get_by_role("button", name="This did not help").click()
        page.get_by_text("Kept with your consent").wait_for()
        (sent,) = chat_server.bodies("/v1/feedback")
        assert sent["model"] == "attune"
        assert sent["reply_id"]

    @pytest.mark.parametrize("agreed", [True, False])
    def test_a_thumb_is_taken_back_also_when_consent_is_switched_off_again(
        self, open_page: Callable[..., Any], keeping: Running, agreed: bool
    ) -> None:
        page = open_page(keeping.url)
        say(page)
        agree(page)
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Kept with your consent").wait_for()
        agree(page, agreed)
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Taken back.", exact=True).wait_for()
        assert list(keeping.app.state.serving.store.export_feedback()) == []
        assert page.locator(".about-reply code").is_hidden()
        assert page.get_by_text("Kept with").count() == 0

    def test_without_consent_a_change_takes_back_what_was_kept_and_sends_nothing_new(
        self, open_page: Callable[..., Any], keeping: Running
    ) -> None:
        store = keeping.app.state.serving.store
        page = open_page(keeping.url)
        say(page)
        agree(page)
        page.get_by_role("button", name="I would have said").click()
        words = page.get_by_label("I would have said", exact=True)
        words.fill("Tell me about her.")
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Kept with your consent").wait_for()
        page.get_by_role("button", name="I would have said").click()
        page.get_by_role("button", name="Send feedback").click()
        until(lambda: next(store.export_feedback())["better"] == "Tell me about her.")
        agree(page, False)
        page.get_by_role("button", name="This did not help").click()
        page.get_by_text("Taken back.", exact=True).wait_for()
        (kept,) = store.export_feedback()
        assert (kept["thumb"], kept["better"]) == (None, "Tell me about her.")
        words.fill("Something new.")
        page.get_by_role("button", name="Send feedback").click()
        page.get_by_text("Taken back. Nothing new was sent").wait_for()
        assert list(store.export_feedback()) == []

    def test_words_that_are_cleared_are_taken_back(self, open_page: Callable[..., Any], keeping: Running) -> None:
        store = keeping.app.state.serving.store
        page = open_page(keeping.url)
        say(page)
        agree(page)
        for words, told in [("", "nothing to send yet"), ("Oh dear.", "Kept with your consent"), ("", "Taken back.")]:
            if page.locator(".feedback").is_hidden():
                page.get_by_role("button", name="I would have said").click()
            page.get_by_label("I would have said", exact=True).fill(words)
            page.get_by_role("button", name="Send feedback").click()
            page.get_by_text(told).wait_for()
            assert [row["better"] for row in store.export_feedback()] == [words] * bool(words)

    def test_the_last_of_two_quick_presses_counts(self, open_page: Callable[..., Any], keeping: Running) -> None:
        page = open_page(keeping.url)
        say(page)
        agree(page)
        page.get_by_role("button", name="This helped").evaluate(
            "thumb => { thumb.click(); setTimeout(() => thumb.click()); }"
        )
        page.get_by_text("Taken back.").wait_for()
        assert list(keeping.app.state.serving.store.export_feedback()) == []

    def test_a_refusal_of_the_server_is_told(self, open_page: Callable[..., Any], chat_server: ChatServer) -> None:
        page = open_page()
        say(page)
        chat_server.stores = False
        agree(page)
        page.get_by_role("button", name="This helped").click()
        page.get_by_text("Not kept. This server keeps nothing.").wait_for()
