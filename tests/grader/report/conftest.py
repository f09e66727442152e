"""The browser fixtures for tests of HTML pages."""

from tests.handout.browsing import browser, opened, page, window  # noqa: F401, these are fixtures
