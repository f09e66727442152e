"""Copies are found however they are disguised, and code that everybody has does not count."""

import functools
import random
import re
import sys

import pytest

from grader.commands import cli
from grader.similarity import pairs
from grader.similarity.fingerprints import prints
from grader.similarity.report import side_by_side
from tests.grader.analysis.samples import class_of, passed
from tests.grader.report.samples import HOSTILE
from tests.handout.browsing import serious

WORDS = ["+", "-", "*", "/", "//", "%", "**"]
TESTS = {"linear": [passed("a")], "adamw": [passed("b")]}


def function(rng, name):
    """A function of twelve random statements."""
    lines = [f"def {name}(first, second):"]
    for n in range(12):
        numbers = [rng.choice(["first", "second", str(rng.randrange(9)), "len(first)"])
                   for _ in range(rng.randrange(2, 6))]  # fmt: skip
        expression = numbers[0] + "".join(f" {rng.choice(WORDS)} {x}" for x in numbers[1:])
        kind = rng.choice(["value_{n} = {e}", "if {e}:\n        first = {e}", "print({e})"])
        lines.append("    " + kind.format(n=n, e=expression))
    return "\n".join([*lines, "    return first", ""])


def program(seed, files=4):
    """A submission that shares no code with any other seed's."""
    rng = random.Random(seed)
    return {
        f"assignment/m{n}.py": "\n\n".join(function(rng, f"f{i}") for i in range(4)).encode()
        for n in range(files)
    }


def renamed(sources):
    return {path: re.sub(rb"value_|first", b"other_name", text) for path, text in sources.items()}


def reordered(sources):
    return {p: b"\n\n".join(reversed(text.split(b"\n\n"))) for p, text in sources.items()}


def reformatted(sources):
    return {
        path: text.replace(b"    ", b"\t").replace(b"\n", b"  # mine\n\n").replace(b" + ", b"+")
        for path, text in sources.items()
    }


def half(sources):
    return dict(list(sources.items())[:2])


WAYS = [renamed, reordered, reformatted, lambda s: reformatted(reordered(renamed(s))), half]
CLASS = [program(seed) for seed in range(20)]


@functools.cache
def read(text):
    return prints(text.decode("utf-8", "replace"))


def ranked(sources, given=()):
    """The ranked pairs of these submissions; each file is fingerprinted once for all tests."""
    works = [pairs.Work({path: read(text) for path, text in one.items()}) for one in sources]
    return pairs.ranked(works, given)


@pytest.mark.parametrize("way", WAYS, ids=["renamed", "reordered", "reformatted", "all", "half"])
def test_a_copy_is_the_only_pair(way):
    """Independent submissions are not listed."""
    copy = program(99) | way(CLASS[3])
    assert [(3, 20)] == [(pair.one, pair.other) for pair in ranked([*CLASS, copy])]


def test_the_most_alike_come_first_with_their_files():
    """A full copy comes before a copy of half the files."""
    found = ranked([*CLASS, program(98) | half(CLASS[3]), renamed(CLASS[5])])
    assert [(5, 21), (3, 20)] == [(pair.one, pair.other) for pair in found]
    assert 1.0 == found[0].overlap > found[1].overlap
    shares = dict(found[1].files)
    assert 1.0 == shares["assignment/m0.py"] == shares["assignment/m1.py"]
    assert shares["assignment/m2.py"] < 0.2


def test_what_was_given_counts_for_nothing():
    """Two students who leave a long stub unchanged are not a pair."""
    stub = program(50)["assignment/m0.py"]
    works = [program(seed, 1) | {"assignment/s.py": stub} for seed in range(2)]
    assert ranked(works)
    assert [] == ranked(works, [stub.decode()])


def test_what_much_of_the_class_has_counts_for_nothing():
    """For example, an instructor may have shown the solution of an exercise."""
    shown = {"assignment/shown.py": program(50)["assignment/m0.py"]}
    works = [sources | shown if n < 9 else sources for n, sources in enumerate(CLASS)]
    assert [] == ranked(works)
    assert [] != ranked([one | shown if n < 2 else one for n, one in enumerate(
        [program(seed, 1) for seed in range(20)])])  # fmt: skip


def test_a_class_of_two_has_a_pair():
    """Code shared by two students counts as rare in a class of any size."""
    assert [(0, 1)] == [(p.one, p.other) for p in ranked([CLASS[0], renamed(CLASS[0])])]


def test_a_few_lines_in_common_are_no_pair():
    """A very short submission resembles many others."""
    short = {"assignment/m0.py": program(7)["assignment/m0.py"][:160]}
    assert [] == ranked([*CLASS[:3], short, short])


def test_nothing_handed_in_is_nothing_alike():
    """This covers an empty class, an empty file, and a file that is not valid Python."""
    assert [] == ranked([])
    assert [] == ranked([{}, {"assignment/m.py": b""}, {"assignment/m.py": b"\xff\x00(" * 500}])


# --- pages ----------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    """A gradebook of four students, two of whom have the same sources except for names."""
    path = tmp_path / "class.sqlite"
    copied = renamed(CLASS[0])
    works = {"ada": CLASS[0], "bob": CLASS[1], "eve": copied, "zoe": CLASS[2]}
    students = {name: ({"name": f"The {name}"}, TESTS) for name in works}
    with class_of(path, students, sources=works):
        pass
    return path


def test_the_command_ranks_and_writes_pages(book, tmp_path, monkeypatch, capsys):
    """The table says that it is not a finding; each pair has a page with both sources."""
    out = tmp_path / "similar"
    monkeypatch.setattr(sys, "argv", ["grader", "similar", str(book), "--html", str(out)])
    assert 0 == cli._run()[0]
    said = capsys.readouterr().out
    assert "1.00  The ada (ada) and The eve (eve)" in said
    assert "4 submissions; 1 pairs" in said
    assert "not a finding" in said
    assert {"index.html", "pair-1.html"} == {path.name for path in out.iterdir()}
    assert (
        'href="pair-1.html">The ada (ada) and The eve (eve)</a>' in (out / "index.html").read_text()
    )


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
def test_pages_are_accessible_and_hostile_sources_are_text(page, tmp_path, width, scheme):
    """Untrusted names and lines never become elements or change the text direction."""
    source = "\n".join([*(f"x = 1  # {text}" for text in HOSTILE), *["x = 1 + 2 - 3 * 4"] * 80])
    one = {"assignment/m.py": source.encode("utf-8", "replace"), **CLASS[0]}
    works = pairs.works_of([one, one])
    (pair,) = pairs.ranked(works)
    names = ["<b>" + HOSTILE[5], "\u202eb"]
    text = side_by_side(pair, names, lambda n: one, works)
    path = tmp_path / "pair.html"
    path.write_text(text, encoding="utf-8", errors="replace")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(path.as_uri())
    assert [] == page.seen
    assert serious(page) == []
    assert 0 == page.locator("main script, main img, main b").count()
    assert 2 <= page.locator("section").count()
    assert page.locator(".alike").count() > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= width
