"""Known mistakes: each is a set of changes to a program, and files that do not fit are told."""

import random
import re

import pytest

from grader.base.errors import CourseFault
from grader.course import courses
from grader.solutions import known_mistakes
from grader.solutions.known_mistakes import Mistake, changed
from grader.solutions.wrong_edits import Change, Edit, entries, written

COURSE = courses.load()

REFERENCE = '''\
"""A module."""

import math


def first(x):
    """One."""
    if x:
        y = math.sqrt(x)

        return y
    return x


def second(x):
    return x
'''
FILE = """\
# Wrong solutions.
[base plain]
+ def first(x):
+     return x

[negative] The sign is lost.
hint: is x below 0?
device: cuda, cpu
price: it is all that is asked
most: 2.5
- return y
+ return -y

[plainly_negative in plain] The sign is lost.
- return x
+ return -x

[both] Nothing is right.
- math.sqrt(x)
+ x
- def second(x):
-     return x
+ def second(x):
+     return -x

[another] Another program.
+ def second(x):
+     return 2
"""


def read(tmp_path, text):
    """The mistakes of a file with this text."""
    path = tmp_path / "p" / "wrong.edits"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return known_mistakes.load(tmp_path, "p")


def programs(tmp_path):
    """The module that results from each mistake of the file above, by the mistake's name."""
    return {mistake.name: mistake.applied_to(REFERENCE) for mistake in read(tmp_path, FILE)}


# --- a change -------------------------------------------------------------------------------------


def test_lines_of_a_change_are_indented_as_the_line_that_it_begins_in():
    """A change is written without indentation and gets the program's; empty lines stay empty."""
    change = Change("y = math.sqrt(x)\n\nreturn y", "y = x\n\nif y:\n    return y")
    expected = REFERENCE.replace(
        "        y = math.sqrt(x)\n\n        return y\n",
        "        y = x\n\n        if y:\n            return y\n",
    )
    assert expected == changed(REFERENCE, (change,))
    assert expected != REFERENCE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    if x:\n        y = math.sqrt(x)\n", "    if x:\n        y = math.exp(x)\n"),
        ("if x:\n        y = math.sqrt(x)", "if x:\n        y = math.exp(x)"),
        ("        y = math.sqrt(x)\n", "        y = x\n        y = math.exp(x)\n"),
        ("        return y\n    return x", "        return math.exp(x)\n    return x"),
        ("if x:\n    y = math.sqrt(x)", "if x:\n    y = math.exp(x)"),
    ],
)
def test_lines_may_be_pasted_with_their_indentation(old, new):
    """Lines are copied from the reference as they are, or are written at the left margin."""
    got = changed(REFERENCE, (Change(old, new),))
    expected = REFERENCE.replace(old, new)
    assert got == (REFERENCE.replace("sqrt", "exp") if expected == REFERENCE else expected)
    assert got != REFERENCE


def test_pasted_lines_need_a_replacement_with_indentation():
    """Otherwise the new lines would end the function; no lines at all are a replacement, too."""
    old = "    if x:\n        y = math.sqrt(x)\n"
    words = (
        r"^the `-` lines are indented as in the program, and the `\+` lines begin at the left "
        r"margin: `y = x`; indent both, or write both at the left margin$"
    )
    with pytest.raises(ValueError, match=words):
        changed(REFERENCE, (Change(old, "y = x\n"),))
    with pytest.raises(ValueError, match=words):
        changed(REFERENCE, (Change(old.lstrip(), "if x:\ny = x\n"),))
    assert changed(REFERENCE, (Change(old, ""),)) == REFERENCE.replace(old, "")
    assert "    z = y = x\n" in changed(REFERENCE, (Change(old.lstrip(), "z = y = x\n"),))


def test_changes_are_made_in_the_program_as_it_was():
    two = (Change("return y", "return math.sqrt(x)"), Change("y = math.sqrt(x)", "y = 0"))
    without = REFERENCE.replace("y = math.sqrt(x)", "y = 0")
    expected = without.replace("return y", "return math.sqrt(x)")
    assert expected == changed(REFERENCE, two) == changed(REFERENCE, two[::-1])


@pytest.mark.parametrize(
    ("old", "times"),
    [("return z", 0), ("return x", 2), ("return y\n  return x", 0), ("return y\nreturn x", 0)],
)
def test_a_text_that_is_not_there_once_is_told(old, times):
    more = (
        re.escape(f"; {known_mistakes.AT_THE_MARGIN}; {known_mistakes.APART}")
        if "\n" in old
        else ""
    )
    words = rf"^expected the `-` lines exactly once, got `.*` {times} times{more}$"
    with pytest.raises(ValueError, match=words):
        changed(REFERENCE, (Change(old, ""),))


def test_changes_that_overlap_are_told():
    """It would be ambiguous which of the two changes is meant."""
    with pytest.raises(ValueError, match=r"^two changes overlap, at `math\.sqrt`$"):
        changed(REFERENCE, (Change("y = math.sqrt", ""), Change("math.sqrt(x)", "")))


# --- a mistake ------------------------------------------------------------------------------------


def test_a_mistake_is_made_in_the_reference(tmp_path):
    got = programs(tmp_path)
    assert REFERENCE.replace("return y", "return -y") == got["negative"]
    first, second = REFERENCE.replace("math.sqrt(x)", "x").split("def second")
    assert first + "def second" + second.replace("return x", "return -x") == got["both"]


def test_a_mistake_is_made_in_its_base(tmp_path):
    """Its definitions replace those of the reference, or the mistake has its own."""
    got = programs(tmp_path)
    head, tail = REFERENCE.split("def first")[0], REFERENCE[REFERENCE.index("\n\ndef second") :]
    assert f"{head}def first(x):\n    return -x\n{tail}" == got["plainly_negative"]
    before = REFERENCE[: REFERENCE.index("def second")]
    assert f"{before}def second(x):\n    return 2\n" == got["another"]


def test_a_mistake_says_what_it_is(tmp_path):
    first, *others = read(tmp_path, FILE)
    assert first == Mistake(
        problem="p", name="negative", says="The sign is lost.", hint="is x below 0?", most=2.5,
        devices=("cuda", "cpu"), price="it is all that is asked",
        changes=(Change("return y", "return -y"),),
    )  # fmt: skip
    assert [(m.name, m.hint, m.devices, m.price, m.most) for m in others] == [
        (name, None, (), None, None) for name in ("plainly_negative", "both", "another")
    ]


def test_bases_are_programs_of_their_own(tmp_path):
    read(tmp_path, FILE)
    (base,) = known_mistakes.bases(tmp_path, "p")
    assert "base plain" == base.name
    assert "def first(x):\n    return x\n\n" in base.applied_to(REFERENCE)


def test_a_problem_without_a_file_has_no_mistakes(tmp_path):
    """A new problem may not have a file of mistakes yet."""
    assert ([], []) == (known_mistakes.load(tmp_path, "p"), known_mistakes.bases(tmp_path, "p"))


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (0, "6: mistake negative, in the reference: expected .*`return w` 0 times"),
        (1, "14: mistake plainly_negative, in base plain: expected .*`return w` 0 times"),
        (3, "26: mistake another: replaces no definition of the reference"),
    ],
)
def test_a_change_that_does_not_fit_is_told_with_the_mistake(tmp_path, place, told):
    text = FILE.replace("- return y", "- return w").replace("- return x", "- return w")
    mistake = read(tmp_path, text.replace("+ def second(x):\n+     return 2", "+ x = 2"))[place]
    with pytest.raises(CourseFault, match=rf"^p/wrong\.edits:{told}$"):
        mistake.applied_to(REFERENCE)


# --- invalid files --------------------------------------------------------------------------------

BASE = "[base b]\n+ d\n\n"
NO_MINUS = "expected a `-` line before the first `+`"
HEADINGS = "expected `[name] what is wrong`, `[name in BASE] what is wrong` or `[base NAME]`, got "
LINES = (
    "expected `hint: …`, `price: …`, `most: …`, `device: …`, `unread: …`, `- code`, `+ code` or an "
    "empty line, got "
)
FAULTS = [
    ("[m] Wrong.\ndevice: gpu\n- a\n", "1: m: expected device: cpu or cuda, got gpu"),
    ("[m] Wrong.\nmost: two\n- a\n", "1: m: expected `most:` and a number of points, got two"),
    ("[m] Wrong.\n- a\n\n[m] Wrong.\n- b\n",
        "4: m: expected a name of its own, got that of line 1"),
    ("[m in b] Wrong.\n- a\n", "1: m: expected a base of this file, which has none; got b"),
    (BASE + "[n in b] Wrong.\n- a\n\n[m in c] Wrong.\n- a\n",
        "7: m: expected a base of this file, b; got c"),
    (BASE, "1: b: expected a mistake that edits this base, got none"),
    ("name: m\n", f"1: {HEADINGS}`name: m`"),
    ("[m]\n- a\n", f"1: {HEADINGS}`[m]`"),
    ("[m m] Wrong.\n- a\n", f"1: {HEADINGS}`[m m] Wrong.`"),
    ("[base b] Right.\n+ a\n", f"1: {HEADINGS}`[base b] Right.`"),
    ("[base b in c]\n+ a\n", f"1: {HEADINGS}`[base b in c]`"),
    ("[m] Wrong.\n- a\n\n- b\n", f"4: {HEADINGS}`- b`"),
    ("[m] Wrong.\n-a\n", "2: expected a space after `-`, got `-a`"),
    ("[m] Wrong.\ncolour: red\n- a\n", f"2: {LINES}`colour: red`"),
    ("[m] Wrong.\nreturn x\n", f"2: {LINES}`return x`"),
    ("[m] Wrong.\nhint:\n- a\n", f"2: {LINES}`hint:`"),
    ("[m] Wrong.\nhint: a\nhint: b\n- a\n", "3: expected one `hint:`, got a second one"),
    ("[m] Wrong.\nhint: a\n", f"1: m: {NO_MINUS}, got no code"),
    ("[m] Wrong.\n+ a\n- b\n", f"1: m: {NO_MINUS}, got `+` and `-`"),
    ("[m in b] Wrong.\n+ a\n", f"1: m: {NO_MINUS}, got `+`"),
    ("[base b]\n- a\n+ b\n", "1: b: expected only `+` lines, got `-` and `+`"),
    ("[base b]\nhint: c\n+ b\n", "1: expected only `+` lines in base b, got hint"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), FAULTS)
def test_a_file_that_is_not_as_it_has_to_be_is_told(tmp_path, text, told):
    with pytest.raises(CourseFault, match=rf"p/wrong\.edits:{re.escape(told)}$"):
        read(tmp_path, text)


def test_all_faults_of_a_file_are_told_with_their_lines(tmp_path):
    said = r"p/wrong\.edits:1: expected .*, got `\[m\]`\n  .*p/wrong.edits:3: n: .*, got two$"
    with pytest.raises(CourseFault, match=said):
        read(tmp_path, "[m]\n\n[n] Wrong.\nmost: two\n- a\n")


def test_every_file_is_of_a_problem():
    assert {problem.id for problem in COURSE.problems} == {
        path.parent.name for path in COURSE.hidden.glob("*/wrong.edits")
    }


# --- the format of wrong solutions: any code is read back as it was written, and faults have lines


AWKWARD = (
    *("", "x", "  x", "x  ", "\tx", "- x", "+ x", "-", "+", "[x] y", "[base x]", "hint: x", "# x"),
    *("'''", '"""', "\\n", "\x0c", "\x85", "\u2028", "√ε", "most: 1", "[", " "),
)


def code(rng):
    """Some lines of code, which look like everything that the format has."""
    return "\n".join(rng.choices(AWKWARD, k=rng.randint(1, 4)))


def entry(rng, name):
    keys = {key: f"{key}: [{name}] - +" for key in ("hint", "price") if rng.random() < 0.5}
    kind = rng.choice(("base", "source", "changes", "in a base"))
    if kind == "base":
        return Edit(name=name, is_base=True, source=code(rng) + "\n")
    if kind == "source":
        return Edit(name=name, says="[x] is: - y", keys=keys, source=code(rng) + "\n")
    changes = tuple(Change(code(rng), code(rng)) for _ in range(rng.randint(1, 3)))
    base = "b" if kind == "in a base" else None
    return Edit(name=name, says="Wrong.", keys=keys, base=base, changes=changes)


def test_every_entry_is_read_as_it_was_written():
    """Blanks, empty lines, signs, quotes, headings in code: nothing is lost or taken for more."""
    rng = random.Random(0)
    wrote = [entry(rng, f"e{n}") for n in range(500)]
    read = list(entries("# a comment\n" + "\n".join(map(written, wrote))))
    assert [written(one) for one in wrote] == [written(one) for one in read]
    assert [(one.name, one.changes, one.source, one.keys, one.base) for one in wrote] == [
        (one.name, one.changes, one.source, one.keys, one.base) for one in read
    ]


def test_where_entries_and_changes_begin():
    """A heading begins an entry wherever it is, and a `-` after a `+` begins another change.

    A lone `+` replaces a text by nothing.
    """
    text = "[a] A.\n- x\n# a comment\n- y\n[b] B.\n+ z\n[c] C.\n- 1\n+\n- 2\n+ 3\n- 4\n"
    first, second, third = entries(text)
    assert (1, (Change("x\ny", ""),)) == (first.line, first.changes)
    assert (5, "z\n") == (second.line, second.source)
    assert (Change("1", ""), Change("2", "3"), Change("4", "")) == third.changes


@pytest.mark.parametrize(
    "entry",
    [
        Edit(name="m", says="Two\nlines.", source="a\n"),
        Edit(name="m", says="Wrong.", keys={"hint": "a\n[n] b"}, source="a\n"),
        Edit(name="m", says="Wrong.", source="a\r[n] b\n"),
        Edit(name="m", says="Wrong.", changes=(Change("a", "b\r"),)),
    ],
)
def test_no_text_can_begin_another_entry(entry):
    """Drafts are made of students' programs: what would not be read back is not written."""
    with pytest.raises(ValueError, match=r"^m: expected .*lines?\b"):
        written(entry)
