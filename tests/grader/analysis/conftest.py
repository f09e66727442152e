"""A browser for the tests of pages."""

from tests.handout.browsing import browser, page, window  # noqa: F401, these are fixtures
