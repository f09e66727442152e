"""Fixtures for the tests of the handout: the built site, a browser, and the address of a page."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder that the command writes: the site, and the PDF if there is a browser."""
    from handout.site.browser import NoBrowser, executable

    folder = tmp_path_factory.mktemp("handout")
    command = [sys.executable, "-m", "handout.site", "--out", str(folder)]
    try:
        executable()
    except NoBrowser:
        command.append("--no-pdf")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def site(built):
    """The folder of the built site."""
    return built / "site"


@pytest.fixture(scope="session")
def address(site):
    """The file address of a page of the site."""
    return lambda name: (site / f"{name}.html").as_uri()


@pytest.fixture(scope="session")
def browser(request):
    """A headless Chromium, or a skip that names what is missing.

    With --require-browser, the test fails instead.
    """
    from handout.site.browser import NoBrowser
    from handout.site.browser import browser as start

    try:
        with start() as started:
            yield started
    except NoBrowser as e:
        if request.config.getoption("--require-browser"):
            pytest.fail(str(e), pytrace=False)
        pytest.skip(str(e))


@pytest.fixture
def page(browser):
    """An empty page without network; page.seen records requests, errors and console messages."""
    context = browser.new_context(
        offline=True, viewport={"width": 1400, "height": 1000}, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(10_000)
    page.seen = []
    page.requests = []
    page.on(
        "console",
        lambda message: (
            page.seen.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    yield page
    context.close()


def pytest_addoption(parser):
    parser.addoption(
        "--require-browser",
        action="store_true",
        help="fail, rather than skip, where no Chromium can be started",
    )


def pytest_terminal_summary(terminalreporter):
    """Always report at the end how many tests were skipped without a browser."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if "chromium" in str(report.longrepr).lower()
    ]
    if skipped:
        terminalreporter.write_line(
            f"NOT TESTED: {len(skipped)} tests of the handout's pages, as no Chromium could be "
            "started "
            "(--require-browser makes this a failure)",
            yellow=True,
        )
