"""Fixtures for the tests of the handout: the built site, a browser, and the address of a page."""

import pytest

from kit.safe_text import counted
from tests.handout.browsing import browser, built_once, page, window  # noqa: F401, these are fixtures


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder that the command writes, without the PDF."""
    return built_once(tmp_path_factory)


@pytest.fixture(scope="session")
def site(built):
    return built / "site"


@pytest.fixture(scope="session")
def address(site):
    """The file address of a page of the site."""
    return lambda name: (site / f"{name}.html").as_uri()


def pytest_addoption(parser):
    said = "fail, rather than skip, where no Chromium can be started"
    parser.addoption("--require-browser", action="store_true", help=said)


def pytest_terminal_summary(terminalreporter):
    """Always report how many tests were skipped for lack of a browser."""
    reports = terminalreporter.stats.get("skipped", [])
    skipped = [report for report in reports if "chromium" in str(report.longrepr).lower()]
    if skipped:
        terminalreporter.write_line(
            f"NOT TESTED: {counted(len(skipped), 'test')} of the handout's pages, as no Chromium "
            "could be started (--require-browser makes this a failure)",
            yellow=True,
        )
