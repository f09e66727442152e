"""A headless Chromium for tests of pages; a conftest imports `browser` and `page`."""

from contextlib import ExitStack

import pytest

STARTED = pytest.StashKey()


@pytest.fixture(scope="session")
def browser(request):
    """A headless Chromium, or a skip that names what is missing.

    With --require-browser, the test fails instead. Playwright can be started once in a process, so
    all folders of tests share the browser.
    """
    from handout.site.browser import NoBrowser
    from handout.site.browser import browser as start

    config = request.config
    if STARTED not in config.stash:
        stack = ExitStack()
        try:
            config.stash[STARTED] = stack.enter_context(start())
        except NoBrowser as e:
            if config.getoption("--require-browser", default=False):
                pytest.fail(str(e), pytrace=False)
            pytest.skip(str(e))
        config.add_cleanup(stack.close)
    return config.stash[STARTED]


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


def serious(page):
    """What axe-core finds on a page that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        (v["id"], v["help"], [node["html"][:160] for node in v["nodes"][:3]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
