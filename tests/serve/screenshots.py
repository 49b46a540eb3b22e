"""The pictures of docs/guide/web-chat.md, taken from a running server: `python -m tests.serve.screenshots http://127.0.0.1:8000`."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SAID = ("My interview is tomorrow and I am nervous.", "A teaching job. I prepared for two weeks.")


def main(url: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        light = _talk(browser, url, 1280, 800, "light")
        _save(light.screenshot(), "chat")
        _save(_talk(browser, url, 1280, 800, "dark").screenshot(), "chat-dark")
        _save(_talk(browser, url, 360, 740, "light").screenshot(), "chat-phone")
        light.set_viewport_size({"width": 1280, "height": 1800})
        light.get_by_role("button", name="Why this reply").first.click()
        light.wait_for_timeout(800)
        _save(light.locator("#why").screenshot(), "chat-why")
        browser.close()


def _talk(browser: Any, url: str, width: int, height: int, theme: str) -> Any:
    size = {"width": width, "height": height}
    page = browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=1.5).new_page()
    page.set_default_timeout(90_000)
    page.goto(url)
    page.wait_for_selector("#system option", state="attached")
    for number, text in enumerate(SAID):
        page.fill("#message", text)
        page.keyboard.press("Enter")
        page.locator(".message.attune .actions").nth(number).wait_for()
    page.wait_for_timeout(1500)  # until nothing moves
    return page


def _save(screenshot: bytes, name: str) -> None:
    """Keep a picture in 256 colours, of which the few strong ones of the page get their share."""
    from PIL import Image

    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    pixels = np.asarray(picture).reshape(-1, 3)
    strong = pixels[np.ptp(pixels.astype(int), axis=1) > 60]
    sample = np.concatenate([pixels[::4], np.repeat(strong, 3, axis=0)])
    palette = Image.fromarray(sample[: len(sample) // 100 * 100].reshape(-1, 100, 3)).quantize(256, kmeans=1)
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
