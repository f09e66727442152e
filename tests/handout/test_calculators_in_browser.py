"""The calculators in a real Chromium: the same digits as Python, errors, keyboard and links."""

import math
import random

import pytest
import torch

from handout.site import calculator_formulas, calculator_rounding, calculators
from tests.grader.sampling import every
from tests.handout.browsing import emptied, unscripted

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

FORMS = calculator_formulas.load()


@pytest.fixture
def opened(window, address):
    """The page of all calculators, kept open, because loading it takes longer than most tests."""
    if window.kept != address("calculators"):
        load(window, address("calculators"))
    yield window
    seen, window.seen = window.seen, []
    assert seen == []


def load(window, address):
    emptied(window).goto(address)
    window.kept = address.partition("#")[0]


@pytest.fixture
def kept(opened):
    """Return a calculator's form on the page that stays open, after its reset."""

    def reset(name):
        section = opened.locator(f"#calculator-{name}")
        section.locator("button.reset").evaluate("(button) => button.click()")
        return section

    yield reset
    opened.emulate_media(media="null")


def printed(section):
    """The printed results of a calculator by label."""
    return section.evaluate(
        """(section) => {
          const texts = (tag) => [...section.querySelectorAll(`.results ${tag}`)]
            .map((cell) => cell.innerText);
          const results = texts("dd");
          return Object.fromEntries(texts("dt").map((term, i) => [term, results[i]]));
        }"""
    )


# Follows a link of the page, and returns when the page has answered.
FOLLOWED = """(hash) => new Promise((done) => {
  window.addEventListener("hashchange", () => done(), { once: true });
  location.hash = hash;
})"""

# For each case: resets the form, fills the case's values in as a person would, and returns the
# messages of wrong fields, the results by label, the cells of the table, and what is odd in the
# form's text or HTML, apart from the text that was filled in. The distance of a message from its
# field is measured only where asked for, because it makes the browser lay out the page. Only the
# last case is written to the address, because each change of it costs several processes time.
FILLED = """(section, [cases, look]) => cases.map((given, i) => {
  if (i === 0) history.replaceState = () => {};
  if (i === cases.length - 1) delete history.replaceState;
  section.querySelector("button.reset").click();
  const errors = {}, results = {}, cells = section.querySelectorAll(".results dd");
  for (const [key, value] of Object.entries(given)) {
    const box = section.querySelector(`[name=${key}]`);
    if (box.type === "checkbox") {
      if (box.checked !== Boolean(Number(value))) box.click();
      continue;
    }
    box.value = value;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const message = (box) => document.getElementById(`${box.id}-error`);
  const wrong = [...section.querySelectorAll("[aria-invalid=true]")];
  for (const box of wrong) errors[box.name] = message(box).textContent;
  section.querySelectorAll(".results dt").forEach((term, i) => {
    results[term.textContent] = cells[i].textContent;
  });
  const table = [...section.querySelectorAll("td")].map((cell) => cell.textContent);
  if (look === "distance") {
    const [at, said] = [wrong[0], message(wrong[0])].map((one) => one.getBoundingClientRect().top);
    return { errors, results, table, distance: said - at };
  }
  let text = section[look];
  for (const value of Object.values(given)) text = text.replaceAll(`“${value}”`, "");
  const odd = text.match(/(?:NaN(?!,)|Infinity|undefined|null).{0,20}/g) ?? [];
  return { errors, results, table, odd };
})"""


def filled(section, cases, look="textContent"):
    """What a form shows for each case, which gives the texts of some fields; the rest is reset."""
    return section.evaluate(FILLED, [cases, look])


# --- one definition of each formula ---------------------------------------------------------------


# Views of any tensor of three dimensions.
VIEWS = [
    "", "[-1]", "[0, 0, 0]", "[0, 1:]", "[1:, ::2]", "[5:2]", "[:, -2:99, ::3]", "[-3:-1, :-1]",
    ".mT", "[0].T", ".transpose(0, -1)", ".transpose(-2, 0)[1:-1, :, 0].T", ".permute(2, 0, 1)",
    ".permute(1, 2, 0)[:, 7:].mT", "[:1].expand(3, -1, -1)", "[:, :1].expand(2, -1, 4, -1)[1, ::5]",
]  # fmt: skip


def grid(form, count):
    """Inputs of a calculator: the defaults, and values over every range.

    They contain both ends of each range and many values in between, evenly spaced on a log scale.
    """
    draw = random.Random(form.id)
    cases = [{}]
    for _ in range(count):
        case = {}
        for field in form.input:
            if field.kind in calculator_formulas.CHOICES:
                case[field.id] = draw.choice(calculator_formulas.choices(form, field.kind))
            elif field.kind == "flag":
                case[field.id] = draw.choice([0, 1])
            elif field.kind not in ("text", "view"):
                case[field.id] = number(field, draw)
        if "shape" in {field.id for field in form.input}:
            shape, view = [draw.randint(1, 40) for _ in range(3)], draw.choice(VIEWS)
            shown = eval(f"x{view}", {"x": torch.empty(shape, device="meta")}).shape
            index = ", ".join(str(draw.randrange(size)) for size in shown if size)
            case |= {
                "shape": ", ".join(map(str, shape)),
                "view": view,
                "index": draw.choice(["", "" if 0 in shown else index]),
            }
        if case.get("dtype") and "peak" in calculator_formulas.DEVICES.get(case.get("device"), {}):
            case["dtype"] = draw.choice(list(calculator_formulas.DEVICES[case["device"]]["peak"]))
        cases.append(case)
    return cases


def number(field, draw):
    """A number that the field accepts: an end of its range or a value in between."""
    low, high = field.min, field.max if field.max is not None else 32.0
    between = (
        10 ** draw.uniform(math.log10(max(low, 1e-6 * high)), math.log10(high))
        if low >= 0
        else 10 ** draw.uniform(-320, 308)
    )
    value = draw.choice([low, high, between, between, between])
    if low < 0:
        value = max(low, min(high, draw.choice([-1, 1]) * value))
    return float(round(value)) if field.kind == "count" else value


@pytest.mark.parametrize("count", [50, pytest.param(400, marks=pytest.mark.proof)])
@pytest.mark.parametrize("name", FORMS)
def test_the_browsers_results_are_pythons(opened, name, count):
    form, cases = FORMS[name], grid(FORMS[name], count)
    given = [calculator_formulas.inputs(form, case) for case in cases]
    as_data = [{key: getattr(value, "name", value) for key, value in one.items()} for one in given]
    kinds = {field.id: field.kind for field in form.input}
    got = opened.evaluate(
        """([id, kinds, cases]) => cases.map((given) => {
          const { choices, calculators } = window.HANDOUT_DATA;
          const { computed, tableOf, display } = window.HANDOUT;
          const form = calculators.find((c) => c.id === id), values = {};
          for (const [key, value] of Object.entries(given))
            values[key] = choices[kinds[key]]?.[value] ?? value;
          const all = computed(id, values), lines = form.column.length ? tableOf(form, all) : [];
          return [
            form.result.map((r) => display(all[r.id], r.show)),
            lines.map((line) => form.column.map((r) => display(line[r.id], r.show))),
          ];
        })""",
        [name, kinds, as_data],
    )
    for case, (results, table) in zip(cases, got, strict=True):
        values, lines = calculator_formulas.evaluate(form, case)
        shown = [calculator_rounding.display(values[r.id], r.show) for r in form.result]
        assert shown == results, case
        assert [
            [calculator_rounding.display(line[r.id], r.show) for r in form.column] for line in lines
        ] == table, case


# --- using a calculator ---------------------------------------------------------------------------


BAD = [
    "", "   ", "-1", "−1", "abc", "NaN", "Infinity", "1e999", "0,5", "1.2.3", "1e", "--1", "0x10",
    "70 zillion", "70Q", "1e3k", "B", "<b>1</b>", "1e30",
]  # fmt: skip


@pytest.mark.parametrize("name", every(5, FORMS))
def test_wrong_input_is_said_beside_the_field(kept, name):
    kinds = ("number", "count", "text", "view")
    fields = {field.id: field.kind for field in FORMS[name].input if field.kind in kinds}
    # The fields of a kind share their code: the others of a kind get a few of the texts.
    first = {kind: field for field, kind in reversed(fields.items())}.values()
    # A number format accepts negative numbers, infinity and 1e30; an index and a view may be empty.
    empty = {"", "   "}
    accepted = {"x": {"-1", "−1", "1e30", "Infinity"}, "index": empty, "view": empty}
    section = kept(name)
    cases = [(field, text) for field in fields for text in (BAD if field in first else BAD[::6])]
    shown = filled(section, [{field: text} for field, text in cases])
    for (field, text), got in zip(cases, shown, strict=True):
        assert got["odd"] == [], (field, text)
        if text in accepted.get(field, ()):
            assert got["errors"] == {}, (field, text)
            continue
        assert list(got["errors"]) == [field], text
        assert got["errors"][field].endswith("."), (field, text)
        assert {*got["results"].values(), *got["table"]} == {"–"}, (field, text)
    for got in filled(section, [{field: "abc"} for field in fields], "distance"):
        assert 0 < got["distance"] < 90, got["errors"]
    (reset,) = filled(section, [{}])
    assert reset["errors"] == {}
    assert "–" not in reset["results"].values()


NO_NUMBER = "is not a number. Write it like 1024, 0.5, 4k or 70B."
# For each calculator: what is typed or chosen, and the message beside the first of these fields.
SENTENCES = {
    "training-time": [
        ({"mfu": "40"}, "Must be at most 1."),
        ({"mfu": "0"}, "Must be at least 0.000001."),
        ({"devices": "1.5"}, "Must be a whole number."),
        ({"N": "70 zillion"}, f"“70 zillion” {NO_NUMBER}"),
        ({"D": ""}, "Enter a number, such as 1024, 0.5, 4k or 70B."),
        ({"dtype": "float8_e4m3fn", "device": "A100 80GB SXM"},
         "The A100 80GB SXM has no peak for float8_e4m3fn."),
    ],
    "model-size": [({"kv_heads": "7"}, "Must divide heads, which is 16.")],
    "training-memory": [({"segments": "33"}, "Must be at most layers, which is 24.")],
    "tensor": [
        ({"index": "1"}, "Needs 2 numbers, one for each dimension."),
        ({"index": "1, 4"}, "Dimension 1 has the size 2, so its index is at most 1."),
        ({"index": "0", "view": "[1, 1]"}, "The view has no dimensions, so it takes no index."),
        ({"shape": "3, 0"}, "Each size must be at least 1."),
        ({"shape": "1,1,1,1,1,1,1,1,1"}, "At most 8 dimensions."),
        ({"shape": "1e9, 1e9"}, "At most 1e15 elements."),
        ({"shape": "1,024, 8"}, "Write 1024 without a comma in it: commas separate sizes."),
        ({"view": "[3]"}, "Index 3 is outside of dimension 0, which has the size 3."),
        ({"view": "[::-1]"}, "The step of a slice must be at least 1."),
        ({"view": ".permute(0)"}, "permute takes each of the 2 dimensions once."),
        ({"view": ".flatten()"}, "“.flatten()” is not one of [1:, ::2], .T, .mT, "
         ".transpose(0, 1), .permute(1, 0) and .expand(3, 4)."),
        ({"view": ".expand(3, 5)"}, "Only a dimension of size 1 can be expanded, and dimension 1 "
         "has the size 4."),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SENTENCES)
def test_the_sentence_says_what_to_do(kept, name):
    cases = SENTENCES[name]
    shown = filled(kept(name), [given for given, _ in cases])
    for (given, message), got in zip(cases, shown, strict=True):
        assert got["errors"].get(next(iter(given))) == message, given
        assert set(got["results"].values()) == {"–"}, given


SAME = {
    ("training-time", "devices"): [
        ("1,024", "1024"), ("1 024", "1024"), ("1.024e3", "1024"), ("1024.0", "1024"),
    ],
    ("training-time", "N"): [
        ("70B", "70e9"), ("70 billion", "70e9"), ("1.3b", "1300000000"), ("4k", "4000"),
        ("4Ki", "4096"), ("1.5 Mi", "1572864"), ("0.1T", "1e11"), ("1,500M", "1.5e9"),
    ],
    ("number-formats", "x"): [
        ("0", "0.0"), ("∞", "inf"), ("+inf", "Infinity"), ("−inf", "-Infinity"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "field"), SAME)
def test_numbers_are_read_as_people_write_them(kept, name, field):
    texts = ["1", *(text for pair in SAME[name, field] for text in pair)]
    one, *shown = filled(kept(name), [{field: text} for text in texts])
    for pair, written, same in zip(SAME[name, field], shown[::2], shown[1::2], strict=True):
        assert written["results"] == same["results"] != one["results"], pair
        assert written["errors"] == same["errors"] == {}


def test_a_line_shows_one_unit_and_a_switch_changes_it(kept):
    section = kept("training-memory")
    assert printed(section)["Weights"] == "5.094\u00a0GB"
    section.get_by_label("Bytes in").select_option("GiB")
    assert printed(section)["Weights"] == "4.744\u00a0GiB"
    assert printed(section)["Memory of the devices"] == "74.506\u00a0GiB"
    section.get_by_label("Bytes in").select_option("bytes")
    assert printed(section)["Weights"] == "5,093,982,208\u00a0B"
    section.get_by_role("button", name="Reset").click()
    assert printed(section)["Weights"] == "5.094\u00a0GB"


def test_infinity_can_be_typed(kept):
    """Most number formats can represent infinity, so it is no overflow."""
    plus, minus = filled(kept("number-formats"), [{"x": "inf"}, {"x": "-inf"}])
    held = [got["results"]["The number in this format"] for got in (plus, minus)]
    assert held == ["∞", "−∞"]
    assert plus["results"]["Overflows"] == minus["results"]["Overflows"] == "no"


def test_a_table_is_a_list_of_cards_on_a_phone(kept, opened):
    cells = kept("matmul").locator("td")
    opened.set_viewport_size({"width": 390, "height": 800})
    boxes = cells.evaluate_all("(cells) => cells.map((cell) => cell.getBoundingClientRect())")
    label = cells.first.evaluate("(cell) => getComputedStyle(cell, '::before').content")
    opened.set_viewport_size({"width": 1400, "height": 1000})
    assert boxes
    for box in boxes:
        assert 0 <= box["left"] < box["right"] <= 390
    assert label == '"Bytes moved"'


# The name or class of the element that has the focus, and whether text can be typed into it.
FOCUSED = """(() => {
  const now = document.activeElement;
  return [now.name || now.className || now.tagName, now.matches("input[type=text]")];
})()"""


@pytest.mark.parametrize("name", every(5, FORMS))
def test_the_keyboard_is_enough(kept, opened, address, name):
    section = kept(name)
    section.locator("input, select").first.focus()
    reached = []
    while len(reached) < 40 and reached[-1:] != ["link"]:
        focused, is_text = opened.evaluate(FOCUSED)
        reached.append(focused)
        if focused == "link":
            break
        if is_text:
            opened.keyboard.press("Enter")
        opened.keyboard.press("Tab")
    units = ["units"] if calculators.has_bytes(FORMS[name]) else []
    wanted = [*(field.id for field in FORMS[name].input), "SUMMARY", *units, "reset", "link"]
    assert reached == wanted
    assert opened.url.split("#")[0] == address("calculators")
    for flag in [field for field in FORMS[name].input if field.kind == "flag"]:
        box = section.locator(f"[name={flag.id}]")
        before = box.is_checked()
        box.focus()
        opened.keyboard.press("Space")
        assert box.is_checked() != before


@pytest.mark.parametrize("name", every(10, FORMS))
def test_a_link_brings_the_values_back(kept, opened, address, name):
    """Opening it announces nothing."""
    section, given = kept(name), {}
    for field in FORMS[name].input:
        if field.kind == "flag":
            given[field.id] = 1 - field.default
        elif field.kind in calculator_formulas.CHOICES:
            given[field.id] = calculator_formulas.choices(FORMS[name], field.kind)[2]
        else:
            special = {"heads": "32", "kv_heads": "8", "d": "4096", "mfu": "0.25"}
            special |= {"projections": "3", "shape": "2, 3, 5"}
            special |= {"view": "[1:].mT", "index": "0, 2, 1"}
            given[field.id] = special.get(field.id, "30")
    if calculators.has_bytes(FORMS[name]):
        given["units"] = "GiB"
    (got,) = filled(section, [given])
    link = section.get_by_role("link").get_attribute("href")
    assert got["errors"] == {}
    assert "–" not in got["results"].values()
    assert opened.url.endswith(link)
    load(opened, address("calculators") + link)
    assert printed(section) == got["results"]
    opened.wait_for_timeout(1000)
    assert set(opened.get_by_role("status").all_inner_texts()) == {""}


@pytest.mark.parametrize("name", every(5, FORMS))
def test_the_ends_of_every_range_give_numbers(kept, name):
    numbers = [field for field in FORMS[name].input if field.kind in ("number", "count")]
    fields = [field for field in numbers if not field.divides]
    ends = [{f.id: end} for f in fields for end in (f.min, f.max) if end is not None]
    ends += [{f.id: f.min for f in fields}, {f.id: f.max for f in fields if f.max is not None}]
    if fields != numbers:
        ends = [{**({"kv_heads": 1} if "heads" in case else {}), **case} for case in ends]
    cases = [{key: f"{value:g}" for key, value in case.items()} for case in ends]
    for case, got in zip(cases, filled(kept(name), cases, "innerHTML"), strict=True):
        assert got["errors"] == {}, case
        assert got["results"], case
        assert "–" not in got["results"].values(), case
        assert got["odd"] == [], case


def test_back_and_forward_bring_values_back(kept, opened):
    section = kept("training-time")
    opened.evaluate(FOLLOWED, "#calculator-training-time?devices=5")
    assert section.get_by_label("Devices").input_value() == "5"
    opened.go_back()
    opened.wait_for_function("document.querySelector('#training-time-devices').value === '1024'")
    assert printed(section)["Time"] == "143.93\u00a0days"
    opened.go_forward()
    opened.wait_for_function("document.querySelector('#training-time-devices').value === '5'")


def test_a_calculator_keeps_its_values_while_another_one_is_used(kept, opened):
    first = kept("training-time")
    first.get_by_label("Devices").fill("2048")
    kept("matmul").get_by_label("m", exact=True).fill("1")
    assert printed(first)["Time"] == "71.96\u00a0days"
    assert opened.url.endswith("#calculator-matmul?m=1")


def test_results_are_said_when_typing_has_stopped(kept, opened):
    """A separate status element announces the main results, or the error, once."""
    section = kept("training-time")
    section.get_by_label("Devices").fill("10240")
    said = "document.querySelector('#calculator-training-time .status').textContent"
    opened.wait_for_function(f"{said}.startsWith('Time: 14.39\u00a0days')", polling=100)
    section.get_by_label("MFU").fill("2")
    opened.wait_for_function(f"{said} === 'MFU: Must be at most 1.'", polling=100)
    assert section.get_by_role("status").count() == 1


def test_print_shows_what_was_put_in(kept, opened):
    section = kept("training-time")
    section.get_by_label("Devices").fill("2048")
    opened.emulate_media(media="print")
    assert section.get_by_label("Devices").is_visible()
    assert section.locator("dd").first.is_visible()
    assert not section.get_by_role("button").is_visible()


BROKEN = [
    ("?N=abc", {"N": f"“abc” {NO_NUMBER}"}),
    ("?nothing=1&N=", {"N": "Enter a number, such as 1024, 0.5, 4k or 70B."}),
    ("?device=B900", {}),
    ("?%%%", {}),
    ("?", {}),
    ("?devices=1&devices=2", {}),
    ("?mfu=%3Cimg%20src=x%20onerror=alert(1)%3E", {"mfu": f"“<img src=x onerror=a” {NO_NUMBER}"}),
]


@pytest.mark.parametrize("reopened", [False, pytest.param(True, marks=pytest.mark.proof)])
@pytest.mark.parametrize(("query", "said"), every(2, BROKEN))
def test_a_broken_link_does_no_harm(kept, opened, query, said, reopened):
    section = kept("training-time")
    opened.evaluate(FOLLOWED, f"#calculator-training-time{query}")
    if reopened:
        opened.reload()
    errors = section.locator("[id$=-error]").evaluate_all(
        "(all) => all.map((one) => [one.id.slice('training-time-'.length, -6), one.innerText])"
    )
    assert {name: text for name, text in errors if text} == said
    assert len(errors) == len(FORMS["training-time"].input)
    assert section.locator("img").count() == 0
    assert printed(kept("training-time"))["Time"] == "143.93\u00a0days"


# The texts of each calculator's results.
RESULTS = """(sections) => sections.map((section) => {
  const cells = [...section.querySelectorAll(".results :is(dt, dd), td")];
  return [section.id, cells.map((cell) => cell.innerText)];
})"""


def test_the_page_shows_the_first_examples_with_and_without_a_script(kept, opened, address):
    for name in FORMS:
        kept(name)
    texts = opened.locator(".calculator").evaluate_all(RESULTS)
    with unscripted(opened) as plain:
        plain.goto(address("calculators"))
        assert plain.locator(".calculator").evaluate_all(RESULTS) == texts
    assert [len(cells) > 1 for _, cells in texts] == [True] * len(FORMS)
