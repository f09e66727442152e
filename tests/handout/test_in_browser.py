"""The built site in a real Chromium with the network off: calculators, search, links, accessibility, small screens."""

import html
import math
import random
import re
from urllib.parse import unquote, urldefrag

import pytest

from grader import course as courses
from handout.site import formulas

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

COURSE = courses.load()
FORMS = formulas.load()
PAGES = ["index", *(f"{i:02}_{m}" for i, m in enumerate(COURSE.modules, 1)), "grading", "calculators"]
CALCULATORS = "calculators"


def address(site, name):
    """The address of a page among the files."""
    return (site / f"{name}.html").as_uri()


def opened(page, site, name, fragment=""):
    """The page, open and without complaint."""
    page.goto(address(site, name) + fragment)
    assert page.seen == []
    return page


def calculator(page, name):
    """The form of a calculator."""
    return page.locator(f"#calculator-{name}")


def printed(section):
    """The printed results by label."""
    rows = section.locator(".results > div")
    return {row.locator("dt").inner_text(): row.locator("dd").inner_text() for row in rows.all()}


# --- one definition of each formula ----------------------------------------------------------------------------------------


def grid(form, count):
    """Inputs of a calculator: its defaults, both ends of every range, and many between, evenly on a log scale."""
    draw = random.Random(form.id)
    cases = [{}]
    for _ in range(count):
        case = {}
        for field in form.input:
            if field.kind in formulas.CHOICES:
                case[field.id] = draw.choice(formulas.choices(form, field.kind))
            elif field.kind == "flag":
                case[field.id] = draw.choice([0, 1])
            elif field.kind != "text":
                case[field.id] = number(field, draw)
        if "shape" in {field.id for field in form.input}:
            shape = [draw.randint(1, 40) for _ in range(draw.randint(1, 6))]
            shown = shape[::-1] if case["transposed"] else shape
            case |= {
                "shape": ", ".join(map(str, shape)),
                "index": draw.choice(["", ", ".join(str(draw.randrange(size)) for size in shown)]),
            }
        if case.get("dtype") and "peak" in formulas.DEVICES.get(case.get("device"), {}):
            case["dtype"] = draw.choice(list(formulas.DEVICES[case["device"]]["peak"]))
        cases.append(case)
    return cases


def number(field, draw):
    """A number that the field accepts."""
    low = field.min if field.min is not None else field.above
    if low < 0:
        return draw.choice([-1, 1]) * 10 ** draw.uniform(-320, 307)
    largest = min(field.max if field.max is not None else 64, 1e15)
    value = draw.choice(
        [
            largest,
            max(low, 1.0 if field.kind == "count" else largest * 1e-6),
            10 ** draw.uniform(math.log10(largest) - 6, math.log10(largest)),
        ]
    )
    return float(max(low, round(value))) if field.kind == "count" else value


@pytest.mark.parametrize("name", FORMS)
def test_the_browsers_results_are_pythons(site, page, name):
    """To the last printed digit, results and tables, over a grid of inputs."""
    form, cases = FORMS[name], grid(FORMS[name], 400)
    opened(page, site, CALCULATORS)
    given = [formulas.inputs(form, case) for case in cases]
    as_data = [{key: getattr(value, "name", value) for key, value in one.items()} for one in given]
    kinds = {field.id: field.kind for field in form.input}
    got = page.evaluate(
        """([id, kinds, cases]) => cases.map((given) => {
          const { choices, calculators } = window.HANDOUT_DATA, { computed, tableOf, display } = window.HANDOUT;
          const form = calculators.find((c) => c.id === id), values = {};
          for (const [key, value] of Object.entries(given)) values[key] = choices[kinds[key]] ? choices[kinds[key]][value] : value;
          const all = computed(id, values), lines = form.column.length ? tableOf(form, all) : [];
          return [
            form.result.map((r) => display(all[r.id], r.show)),
            lines.map((line) => form.column.map((r) => display(line[r.id], r.show))),
          ];
        })""",
        [name, kinds, as_data],
    )
    for case, (results, table) in zip(cases, got, strict=True):
        values, lines = formulas.evaluate(form, case)
        assert [formulas.display(values[r.id], r.show) for r in form.result] == results, case
        assert [[formulas.display(line[r.id], r.show) for r in form.column] for line in lines] == table, case


@pytest.mark.parametrize("name", FORMS)
def test_the_page_shows_the_worked_example_with_and_without_a_script(site, browser, page, name):
    """What is in the HTML is what the script computes from the defaults."""
    section = calculator(opened(page, site, CALCULATORS), name)
    without = browser.new_context(offline=True, java_script_enabled=False).new_page()
    without.goto(address(site, CALCULATORS))
    assert printed(section) == printed(calculator(without, name))
    assert section.locator("td").all_inner_texts() == calculator(without, name).locator("td").all_inner_texts()
    without.context.close()


# --- using one -------------------------------------------------------------------------------------------------------------


def test_a_typed_value_changes_the_result(site, page):
    """Numbers as people write them."""
    section = calculator(opened(page, site, "05_resource_accounting"), "training-time")
    for text in ("1024", "1,024", "1 024", "1.024e3", "1024.0"):
        section.get_by_label("Devices").fill(text)
        assert printed(section)["Days"] == "143.93 days", text
    section.get_by_label("Devices").fill("2048")
    assert printed(section)["Days"] == "71.97 days"
    section.get_by_label("MFU").fill("0.4")
    assert printed(section)["Days"] == formulas.display(
        formulas.evaluate(FORMS["training-time"], {"devices": 2048, "mfu": 0.4})[0]["days"], "days"
    )
    section.get_by_role("button", name="Reset").click()
    assert printed(section)["Days"] == "143.93 days"


BAD = [
    "",
    "   ",
    "-1",
    "−1",
    "abc",
    "NaN",
    "Infinity",
    "1e999",
    "0,5",
    "1.2.3",
    "1e",
    "--1",
    "0x10",
    "70 billion",
    "<b>1</b>",
    "1e30",
]


@pytest.mark.parametrize("name", FORMS)
def test_wrong_input_is_said_beside_the_field(site, page, name):
    """Every field, every kind of nonsense: a sentence, no result, and never NaN, undefined or infinity on the page."""
    section = calculator(opened(page, site, CALCULATORS), name)
    for field in [field for field in FORMS[name].input if field.kind in ("number", "count", "text")]:
        box, error = section.locator(f"[name={field.id}]"), section.locator(f"#{name}-{field.id}-error")
        # a number format takes negative numbers, and 1e30; an index may be empty
        taken = {"x": {"-1", "−1", "1e30"}, "index": {"", "   "}}.get(field.id, set())
        for text in BAD:
            box.fill(text)
            wrong = error.inner_text()
            assert bool(wrong) == (text not in taken), (field.id, text, wrong)
            assert not re.search(
                r"NaN\b(?! in float8)|undefined|Infinity|null",
                section.inner_text().replace("“NaN”", "").replace("“Infinity”", ""),
            ), (field.id, text)
            if wrong:
                assert wrong.endswith(".")
                assert box.get_attribute("aria-invalid") == "true"
                assert set(printed(section).values()) == {"–"}
                assert error.bounding_box()["y"] - box.bounding_box()["y"] < 90
        section.get_by_role("button", name="Reset").click()
        assert error.inner_text() == ""
        assert "–" not in printed(section).values()
    assert page.seen == []


@pytest.mark.parametrize(
    ("name", "fill", "field", "message"),
    [
        ("training-time", {"mfu": "40"}, "mfu", "Must be at most 1."),
        ("training-time", {"mfu": "0"}, "mfu", "Must be above 0."),
        ("training-time", {"devices": "1.5"}, "devices", "Must be a whole number."),
        ("training-time", {"N": "70 billion"}, "N", "“70 billion” is not a number. Write it like 1024, 0.5 or 70e9."),
        ("training-time", {"D": ""}, "D", "Enter a number, such as 1024, 0.5 or 70e9."),
        ("model-size", {"heads": "7"}, "heads", "Must divide d, which is 12288."),
        ("training-memory", {"segments": "33"}, "segments", "Must be at most layers, which is 32."),
        ("tensor", {"index": "1"}, "index", "Needs 2 numbers, one for each dimension."),
        ("tensor", {"index": "1, 4"}, "index", "Dimension 1 has the size 4, so its index is at most 3."),
        ("tensor", {"shape": "3, 0"}, "shape", "Each size must be at least 1."),
        ("tensor", {"shape": "1,1,1,1,1,1,1,1,1"}, "shape", "At most 8 dimensions."),
        ("tensor", {"shape": "1e9, 1e9"}, "shape", "At most 1e15 elements."),
    ],
)
def test_the_sentence_says_what_to_do(site, page, name, fill, field, message):
    """Ranges, whole numbers, and what fits only together with another field."""
    section = calculator(opened(page, site, CALCULATORS), name)
    for key, text in fill.items():
        section.locator(f"[name={key}]").fill(text)
    assert section.locator(f"#{name}-{field}-error").inner_text() == message


def test_a_dtype_without_a_peak_on_the_device_is_refused(site, page):
    """An A100 has no float8."""
    section = calculator(opened(page, site, CALCULATORS), "training-time")
    section.get_by_label("Multiplies in").select_option("float8_e4m3fn")
    assert "–" not in printed(section).values()
    section.get_by_label("Device", exact=True).select_option("A100 80GB SXM")
    assert section.locator("#training-time-dtype-error").inner_text() == "The A100 80GB SXM has no peak for float8_e4m3fn."


@pytest.mark.parametrize("name", FORMS)
def test_the_keyboard_is_enough(site, page, name):
    """Tab reaches every field in order, the disclosure, the button and the link; Enter in a field does not leave the page."""
    section = calculator(opened(page, site, CALCULATORS), name)
    first = section.locator("input, select").first
    first.focus()
    reached = []
    for _ in range(40):
        reached.append(
            page.evaluate("document.activeElement.name || document.activeElement.className || document.activeElement.tagName")
        )
        if reached[-1] == "link":
            break
        page.keyboard.press("Enter" if page.evaluate("document.activeElement.matches('input[type=text]')") else "Shift")
        page.keyboard.press("Tab")
    wanted = (
        [field.id for field in FORMS[name].input] + (["lines"] if FORMS[name].column else []) + ["SUMMARY", "reset", "link"]
    )
    assert reached == wanted
    assert page.url.split("#")[0] == address(site, CALCULATORS)
    for flag in [field for field in FORMS[name].input if field.kind == "flag"]:
        box = section.locator(f"[name={flag.id}]")
        before = box.is_checked()
        box.focus()
        page.keyboard.press("Space")
        assert box.is_checked() != before


@pytest.mark.parametrize("name", FORMS)
def test_a_link_brings_the_values_back(site, browser, page, name):
    """Numbers, choices and flags, in another browser; and the address follows what is typed."""
    section = calculator(opened(page, site, CALCULATORS), name)
    for field in FORMS[name].input:
        box = section.locator(f"[name={field.id}]")
        if field.kind == "flag":
            box.click()
        elif field.kind in formulas.CHOICES:
            box.select_option(formulas.choices(FORMS[name], field.kind)[2])
        elif field.kind == "text":
            box.fill({"shape": "2, 3, 5", "index": "1, 2, 1"}[field.id])
        else:
            box.fill({"heads": "32", "d": "4096", "mfu": "0.25"}.get(field.id, "30"))
    results, link = printed(section), section.get_by_role("link").get_attribute("href")
    assert "–" not in results.values()
    assert page.url.endswith(link)
    other = browser.new_context(offline=True).new_page()
    other.goto(address(site, CALCULATORS) + link)
    assert printed(calculator(other, name)) == results
    other.context.close()


@pytest.mark.parametrize(
    "query", ["?N=abc", "?nothing=1&N=", "?device=B900", "?%%%", "?", "?N=1&N=2", "?mfu=%3Cimg%20src=x%20onerror=alert(1)%3E"]
)
def test_a_broken_link_does_no_harm(site, page, query):
    """What it says wrongly is said beside the field, or left out."""
    section = calculator(opened(page, site, CALCULATORS, f"#calculator-training-time{query}"), "training-time")
    assert section.locator("img").count() == 0
    section.get_by_role("button", name="Reset").click()
    assert printed(section)["Days"] == "143.93 days"
    assert page.seen == []


# --- the site -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_nothing_leaves_the_page(site, page, name):
    """Every request of a page is for a file of the site, which is there; nothing is said in the console."""
    opened(page, site, name)
    page.wait_for_load_state("load")
    inside = site.as_uri() + "/"
    assert page.requests
    assert [url for url in page.requests if not url.startswith(inside)] == []
    text = (site / f"{name}.html").read_text(encoding="utf-8")
    loads = re.findall(r'(?:src|href)="([^"]*//[^"]*)"', text)
    assert loads == [], "an address elsewhere"


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(site, page, name):
    """To a file of the site, and to a place in it."""
    opened(page, site, name)
    for href in page.evaluate("[...document.querySelectorAll('a[href]')].map((a) => a.href)"):
        url, fragment = urldefrag(href)
        file = site / unquote(url.removeprefix(site.as_uri() + "/"))
        assert file.is_file(), href
        if fragment:
            assert f'id="{unquote(fragment)}"' in html.unescape(file.read_text(encoding="utf-8")), href


def test_search_works_from_files(site, page):
    """A word of the text finds its chapter, and one that is nowhere finds nothing."""
    page.goto(address(site, "search") + "?q=roofline")
    page.locator("#search-results li").first.wait_for()
    assert any("Resource accounting" in text for text in page.locator("#search-results li").all_inner_texts())
    page.goto(address(site, "search") + "?q=xylophone")
    page.get_by_text("did not match any documents").wait_for()
    assert page.seen == []
    assert all(url.startswith("file:") for url in page.requests)


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
@pytest.mark.parametrize("name", [*PAGES, "search"])
def test_axe_finds_nothing_serious(site, page, name, width, scheme):
    """axe-core on each page, wide and light, narrow and dark; and the narrow page does not scroll sideways."""
    from axe_playwright_python.sync_playwright import Axe

    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    opened(page, site, name)
    found = [v for v in Axe().run(page).response["violations"] if v["impact"] in ("serious", "critical")]
    assert [(v["id"], v["help"], [node["html"][:160] for node in v["nodes"][:3]]) for v in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawings_can_be_read(site, page, scheme):
    """Words on fills have a contrast of 4.5 at least, fills on the page one of 3 (WCAG 2.1, 1.4.3 and 1.4.11)."""
    page.emulate_media(color_scheme=scheme)
    opened(page, site, "01_tensor_memory")
    names = [
        *(f"--s{n}" for n in range(1, 7)),
        "--on-fill",
        "--wrong",
        "--color-background-primary",
        "--color-foreground-primary",
    ]
    colours = page.evaluate(
        """(names) => {
          const style = getComputedStyle(document.body), canvas = document.createElement("canvas").getContext("2d");
          const hex = (name) => { canvas.fillStyle = style.getPropertyValue(name).trim(); return canvas.fillStyle; };
          return Object.fromEntries(names.map((name) => [name, hex(name)]));
        }""",
        names,
    )
    ground = colours["--color-background-primary"]
    for n in range(1, 7):
        assert contrast(colours[f"--s{n}"], colours["--on-fill"]) >= 4.5, n
        assert contrast(colours[f"--s{n}"], ground) >= 3, n
    assert contrast(colours["--wrong"], ground) >= 4.5
    assert contrast(colours["--color-foreground-primary"], ground) >= 7


def contrast(one, other):
    """The contrast ratio of two colours (#rrggbb), by WCAG 2.1."""

    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
