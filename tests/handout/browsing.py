"""The built site in a browser: build it once, open its pages, and measure them."""

import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from tests.grader.warm_python import python

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
    page.seen, page.requests, page.kept = [], [], None
    page.set_default_timeout(60_000)  # a busy machine takes its time
    odd = ("error", "warning")
    page.on("console", lambda said: page.seen.extend([said.text] * (said.type in odd)))
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    return page


@pytest.fixture
def page(window):
    """An empty page without network; page.seen records requests, errors and console messages.

    Nothing of the previous test remains: storage, window size and colour scheme are reset.
    """
    return emptied(window)


@contextmanager
def unscripted(window):
    """Empty the page, and turn its scripts off inside the block."""
    switch = emptied(window).context.new_cdp_session(window)
    switch.send("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        yield window
    finally:
        switch.detach()


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
    window.goto("about:blank")
    store = window.context.new_cdp_session(window)
    store.send("Storage.clearDataForOrigin", {"origin": "file://", "storageTypes": "all"})
    store.detach()
    window.set_viewport_size({"width": 1400, "height": 1000})
    window.emulate_media(media="null", color_scheme="null", reduced_motion="reduce")
    window.seen, window.requests, window.kept = [], [], None
    return window


def serious(page, within=None):
    """The violations that axe-core rates as serious or critical, on a page or within an element."""
    from axe_playwright_python.sync_playwright import Axe

    # Without the elements that pass, a run takes two thirds of the time.
    options = {"resultTypes": ["violations"]}
    found = Axe().run(page, within, options).response["violations"]
    found = [v for v in found if v["impact"] in ("serious", "critical")]
    return [(v["id"], v["help"], [node["html"][:160] for node in v["nodes"][:3]]) for v in found]


# --- what tests look at on a page of the site


PHONE, WIDTHS = 400, (400, 1000, 1300, 1600)
# What `make test` measures of a page that it opens, by its name's length.
MEASURED = ([(PHONE, "light")], [(PHONE, "dark")], [(1300, "light")])
# Compare every piece of text, drawing and field of the article with all boxes around it. Boxes with
# a clip path are hidden on purpose: only screen readers read them.
MEASURE = """async ([width, mayScroll]) => {
  const found = new Set(), known = new Map(), article = document.querySelector("article");
  document.querySelectorAll("article details").forEach((one) => { one.open = true; });
  // The page answers the events of its new width and of opened answers before the second frame.
  for (let frame = 0; frame < 2 || innerWidth !== width; frame += 1)
    await new Promise(requestAnimationFrame);
  const quote = (e) => `"${e.textContent.trim().slice(0, 40)}"`;
  const named = (e) => `${e.localName}.${e.getAttribute("class") ?? ""}`;
  const reachable = (box) => box.tabIndex === 0 && box.getAttribute("role") === "group"
    && box.getAttribute("aria-label")
    && getComputedStyle(box).backgroundImage.includes("gradient");
  // The sides between which the content of a box may be, and the box that sets each side.
  const sides = (box) => {
    if (known.has(box)) return known.get(box);
    const style = getComputedStyle(box);
    const anywhere = { left: [-Infinity], right: [Infinity] }, svg = box.localName === "svg";
    let inside = box === article ? anywhere : sides(box.parentElement);
    const wider = box.scrollWidth > box.clientWidth && !box.matches(".formula");
    if (style.clipPath !== "none" || inside.hidden) inside = { ...anywhere, hidden: true };
    else if (wider && mayScroll && style.overflowX === "auto" && reachable(box)) {
      check(box.parentElement, [box.getBoundingClientRect()], box);
      inside = anywhere;
    } else if (svg || (style.display !== "inline" && box instanceof HTMLElement)) {
      const at = box.getBoundingClientRect(), left = at.left + box.clientLeft;
      const right = svg ? at.right : left + box.clientWidth;
      inside = {
        left: left >= inside.left[0] ? [left, box] : inside.left,
        right: right <= inside.right[0] ? [right, box] : inside.right,
      };
    }
    known.set(box, inside);
    return inside;
  };
  const check = (box, rects, what) => {
    const { left, right } = sides(box);
    for (const r of rects) {
      if (!r.width || !r.height) continue;
      const beyond = r.left < left[0] - 1 ? left[1] : r.right > right[0] + 1 ? right[1] : null;
      if (!beyond) continue;
      const element = what.closest ? what : what.parentElement;
      const block = element.closest("pre, table, .formula, p, li, svg") ?? element;
      found.add(`${named(beyond)} is narrower than ${named(block)} ${quote(block)}`);
    }
  };
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    if (!walker.currentNode.data.trim()) continue;
    range.selectNodeContents(walker.currentNode);
    check(walker.currentNode.parentElement, range.getClientRects(), walker.currentNode);
  }
  for (const e of article.querySelectorAll("svg, img, input, select, button, math"))
    check(e.parentElement, e.getClientRects(), e);
  for (const [box, { hidden }] of known) {
    const taller = box.scrollHeight > box.clientHeight && !hidden;
    if (taller && getComputedStyle(box).overflowY !== "visible")
      found.add(`${named(box)} ${quote(box)} is cut off below`);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.add("the page scrolls sideways");
  return [...found];
}"""


# Scroll to each section; return the headings, the sidebar's links, how many of them are marked, and
# whether the marked one is the section's.
SIDEBAR = """async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const headings = all("article :is(h2, h3):not(.calculator-title)"), seen = [];
  for (const h of headings) {
    const top = h.getBoundingClientRect().top + scrollY - 60;
    scrollTo({ top, behavior: "instant" });
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    seen.push(all(".sidebar-tree [aria-current]").length);
    const link = document.querySelector(".sidebar-tree .sections [aria-current]");
    const end = Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight;
    seen.push(end || Boolean(link && document.getElementById(link.hash.slice(1)).contains(h)));
  }
  const titles = headings.map((h) => h.innerText.replace(/¶$/, ""));
  const links = all(".sidebar-tree .sections a").map((a) => a.innerText);
  return [titles, links, [...new Set(seen)]];
}"""


def measured(name):
    """The layouts in which `make test` measures a page."""
    return MEASURED[len(name) % 3]


def cut_off(page, layouts):
    cut = {}
    for width, scheme in layouts:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        if found := page.evaluate(MEASURE, [width, width <= PHONE]):
            cut[f"{width}, {scheme}"] = found
    return cut


# --- the built handout, built once for all processes of a test run --------------------------------


ROOT = Path(__file__).resolve().parents[2]


def built_once(tmp_path_factory):
    """The folder that the command writes, without the PDF.

    All pytest-xdist processes share one folder, and the first process that needs it builds.
    """
    base = tmp_path_factory.getbasetemp()
    common = base.parent if base.name.startswith("popen-") else base
    folder = common / "handout"
    with FileLock(common / "handout.lock"):
        if not (common / "handout.done").exists():
            written(folder, "--no-pdf")
            (common / "handout.done").touch()
    return folder


def written(folder, *options):
    """Write the handout to a folder, and return the folder."""
    command = [python(), "-m", "handout.site", *options, "--out", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder
