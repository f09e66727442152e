"""Drive the system's Chromium with Playwright, without network, to print the PDF and run tests."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = [
    *("--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run", "--disable-quic"),
]


class NoBrowser(Exception):
    """There is no Chromium here, or it cannot be started; the message says what to do."""


def executable() -> str:
    """The command of the browser: $CHROMIUM, or the first one that is installed.

    Raises:
        NoBrowser: There is no browser.
    """
    named = os.environ.get("CHROMIUM")
    if named and not shutil.which(named):
        raise NoBrowser(f"CHROMIUM names {named}, which cannot be run")
    found = named or next((name for name in NAMES if shutil.which(name)), None)
    if not found:
        raise NoBrowser(
            "no Chromium: install it (on Debian: apt-get install chromium) "
            f"or name it in CHROMIUM; tried {', '.join(NAMES)}"
        )
    return str(shutil.which(found))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a headless browser.

    Raises:
        NoBrowser: There is no browser, or it does not start.
    """
    command = executable()
    # Chromium's own sandbox refuses root. The browser loads nothing but our own page.
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=command, args=[*QUIET, *root])
        except Error as e:
            raise NoBrowser(f"{command} does not start: {str(e).splitlines()[0]}") from None
        yield started
        started.close()


if __name__ == "__main__":
    try:
        executable()
    except NoBrowser as e:
        raise SystemExit(str(e)) from None
