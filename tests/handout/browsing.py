"""A headless Chromium for tests of pages; a conftest imports `browser`, `window` and `page`."""

from contextlib import ExitStack

import pytest

STARTED = pytest.StashKey()


@pytest.fixture(scope="session")
def browser(request):
    """A headless Chromium; without one, the test is skipped with the reason.

    With --require-browser, the test fails instead. Playwright can be started only once per process,
    so all test folders share the browser.
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


@pytest.fixture(scope="session")
def window(browser):
    """One browser page shared by all tests, because creating one takes as long as loading it."""
    context = browser.new_context(offline=True)
    yield watched(context)
    context.close()


def watched(context):
    """A new page that keeps its messages and errors in `seen`, and its requests in `requests`."""
    page = context.new_page()
    page.seen, page.requests = [], []
    page.set_default_timeout(60_000)  # a busy machine takes its time
    page.on(
        "console",
        lambda message: (
            page.seen.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    return page


@pytest.fixture
def page(window):
    """An empty page without network; page.seen records requests, errors and console messages.

    Nothing of the previous test remains: storage, window size and colour scheme are reset.
    """
    return emptied(window)


@pytest.fixture
def opened(page, tmp_path):
    """Open a page's text from a file; it may make no requests and log no errors."""

    def show(text):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8", errors="replace")
        page.goto(path.as_uri())
        assert page.seen == []
        assert {url.split("#")[0] for url in page.requests} == {path.as_uri()}
        return page

    return show


def emptied(window):
    """The shared page, reset."""
    window.goto("about:blank")
    store = window.context.new_cdp_session(window)
    store.send("Storage.clearDataForOrigin", {"origin": "file://", "storageTypes": "all"})
    store.detach()
    window.set_viewport_size({"width": 1400, "height": 1000})
    window.emulate_media(media="null", color_scheme="null", reduced_motion="reduce")
    window.seen, window.requests = [], []
    return window


def serious(page, within=None):
    """The violations that axe-core rates as serious or critical, on a page or within an element."""
    from axe_playwright_python.sync_playwright import Axe

    # Without the elements that pass, a run takes two thirds of the time.
    options = {"resultTypes": ["violations"]}
    found = Axe().run(page, within, options).response["violations"]
    return [
        (v["id"], v["help"], [node["html"][:160] for node in v["nodes"][:3]])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
