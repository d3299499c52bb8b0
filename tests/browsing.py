"""Headless Chromium for tests of pages, where there is one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

LIMIT = 60
"""Seconds that anything may take on a busy machine."""
NARROW = 360


@contextmanager
def open_browser() -> Iterator:
    """A driver with its browser; the test is skipped where they are not there."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver = shutil.which("chromedriver")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if driver is None or program is None:
        pytest.skip("there is no chromium with its chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    found.set_page_load_timeout(LIMIT)
    try:
        yield found
    finally:
        found.quit()


def emulate(browser, *, width: int, scheme: str, media: str = "") -> None:
    """The width of the window, light or dark, and `media` such as "print"."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [feature]})


@contextmanager
def opened(browser, address: str) -> Iterator:
    """The page, just opened and light, nothing remembered; at the end its console must be empty."""
    emulate(browser, width=1280, scheme="light")
    browser.get(address)
    browser.execute_script("localStorage.clear()")
    browser.get_log("browser")
    browser.get(address)
    wait(browser, "return document.body.dataset.ready === 'true'")
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def wait(browser, script: str):
    """What the script returns once it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, LIMIT, poll_frequency=0.05).until(
        lambda b: b.execute_script(script), message=script
    )
