"""The class page in a browser: links, sorting, search, hostile texts, and its size."""

import random

import pytest

from grader.analysis import class_page
from grader.analysis.class_statistics import survey
from grader.base.errors import Status
from tests.grader.analysis.sample_gradebooks import COURSE, class_of, failed, passed, skipped
from tests.grader.report.sample_results import HARMLESS, HOSTILE
from tests.grader.sampling import every
from tests.handout.browsing import serious

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
EPS = "Epsilon stands inside the square root."
NAMES = ["Ada", "Zoë", "Linus", "Mei", "José", "Priya"]


def work_of(rng, number, ability):
    """The outcomes of one problem's `number` tests for one student."""
    if rng.random() < 0.1:
        return [skipped(str(n)) for n in range(number)]
    return [
        passed(str(n)) if rng.gauss(ability, 1) > n / number - 1 else failed(str(n), EPS * (n % 2))
        for n in range(number)
    ]


def students(count, *, tests=6, problems=("linear", "adamw"), name=None):
    """A class of `count` students with results for these problems."""
    rng = random.Random(0)
    found = {}
    for n in range(count):
        ability = rng.gauss(0.3, 1)
        known = {"name": name or f"{NAMES[n % 6]} {n}", "section": "AB"[n % 2]}
        work = {problem: work_of(rng, tests, ability) for problem in problems}
        found[f"s{n:03}"] = (known, None if n % 20 == 7 else work)
    return found


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The page of a class of sixty students."""
    path = tmp_path_factory.mktemp("class") / "class.sqlite"
    with class_of(path, students(60)) as whole:
        return class_page.render(survey(whole), title="Homework 2")


def until(page, holds, given=None):
    """Wait until `holds` is true; the page's content policy forbids `wait_for_function`."""
    for _ in range(3000):
        if page.evaluate(holds, given):
            return
        page.wait_for_timeout(10)
    raise AssertionError(f"this never holds: {holds}")


def shown(page):
    """The students in the table, once the table shows the filter in the address."""
    until(page, "() => document.getElementById('all').dataset.shown === location.hash")
    return page.evaluate(
        """() => [...document.querySelectorAll("#all tbody tr")].filter((row) => !row.hidden)
             .map((row) => row.cells[0].textContent)"""
    )


def follow(page, act):
    """Run `act`, which changes the address, and wait until the address has changed."""
    before = page.evaluate("location.hash")
    act()
    until(page, "before => location.hash !== before", before)


def test_a_mistake_leads_to_its_students_and_back(text, opened):
    """The filter is part of the address, so the browser's Back button works."""
    page = opened(text)
    assert 60 == len(shown(page))
    link = page.locator("a[href='#mistake-0']").last
    count = int(link.inner_text())
    follow(page, link.click)
    assert count == len(shown(page)) < 60
    assert f"{count} students: " in page.locator("#chosen").inner_text()
    follow(page, page.locator("a[href='#section-1']").click)
    assert 30 == len(shown(page))
    follow(page, page.go_back)
    assert count == len(shown(page))
    follow(page, page.go_back)
    assert 60 == len(shown(page))
    assert page.seen == []


@pytest.mark.proof
def test_every_kind_of_mark_leads_to_its_students(text, opened):
    page = opened(text)
    bar = page.locator("#histogram a").last
    said = int(bar.get_attribute("aria-label").split()[0])
    bar.focus()
    follow(page, lambda: page.keyboard.press("Enter"))
    assert said == len(shown(page)) < 60
    follow(page, lambda: page.evaluate("location.hash = 'student-5'"))
    assert 1 == len(shown(page))
    follow(page, page.locator("a[href^='#test-']").first.click)
    assert 1 <= len(shown(page)) < 60
    follow(page, page.locator("a[href='#state-missing']").click)
    assert 3 == len(shown(page))
    follow(page, page.locator("a[href='#problem-0']").first.click)
    assert 40 < len(shown(page)) < 60
    follow(page, page.get_by_role("link", name="Show everybody").click)
    assert 60 == len(shown(page))


def test_search_and_sort(text, opened):
    page = opened(text)
    page.get_by_label("Search").fill("zoë")
    assert 10 == len(shown(page))
    assert "10 students" == page.locator("#chosen").inner_text()
    page.get_by_label("Search").fill("")
    points = """() => [...document.querySelectorAll("#all tbody tr")]
        .map((row) => Number(row.cells[3].dataset.sort))"""
    page.locator("#all").get_by_role("button", name="Points").click()
    down = page.evaluate(points)
    assert sorted(down, reverse=True) == down
    assert "descending" == page.locator("#all th[aria-sort]").get_attribute("aria-sort")
    page.locator("#all").get_by_role("button", name="Points").click()
    assert sorted(down) == page.evaluate(points)


@pytest.mark.parametrize(("width", "scheme"), every(2, [(390, "dark"), (1400, "light")]))
def test_axe_finds_nothing_serious(text, opened, page, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    opened(text).get_by_label("Search").fill("zoë")  # ten of sixty rows take half the time
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_texts_stay_texts(opened, tmp_path):
    hostile = {}
    for n, one in enumerate(HOSTILE):
        safe = one.encode("utf-8", "replace").decode().replace("\x00", "")
        tests = [failed(f"{m} {safe}", what=safe, about=safe, mistake=safe if m % 2 else "",
                        status=Status.CRASHED) for m in range(3)]  # fmt: skip
        known = {"name": safe, "section": safe, "email": safe}
        hostile[f"{n} {safe}"] = (known, {"linear": tests, "adamw": tests})
    with class_of(tmp_path / "class.sqlite", hostile) as whole:
        found = survey(whole)
    page = opened(class_page.render(found, title=HOSTILE[5]))
    assert 0 == page.locator("main script, main img, main style, main b").count()
    assert len(HOSTILE) == len(shown(page))
    handlers = page.evaluate(
        """() => [...document.querySelectorAll("main *")].flatMap((e) => e.getAttributeNames())
             .filter((name) => name.startsWith("on"))"""
    )
    assert [] == handlers
    visible = page.locator("main").inner_text()
    assert {c for c in visible if not c.isprintable()} <= {"\n", "\t", *HARMLESS}


@pytest.mark.proof
def test_a_large_class_makes_a_small_page(opened, tmp_path):
    problems = tuple(problem.id for problem in COURSE.problems)
    few = list(students(40, tests=22, problems=problems).values())
    many = {f"s{n:03}": few[n % 40] for n in range(400)}
    with class_of(tmp_path / "class.sqlite", many, problems=problems) as whole:
        text = class_page.render(survey(whole), title="All")
    assert len(text.encode()) < 1_000_000
    assert 400 == len(shown(opened(text)))


def test_nothing_at_all_is_a_page_too(opened, tmp_path):
    with class_of(tmp_path / "class.sqlite", {"s1": ({}, None)}) as whole:
        page = opened(class_page.render(survey(whole), title="Early"))
    assert 1 == len(shown(page))
