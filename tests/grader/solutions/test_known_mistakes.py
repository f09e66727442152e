"""Known mistakes: each is a set of changes to a program, and files that do not fit are told."""

import random
import re

import pytest

from grader.base.errors import CourseFault
from grader.course import courses
from grader.solutions import known_mistakes
from grader.solutions.known_mistakes import Mistake, changed
from grader.solutions.wrong_edits import Change, Edit, entries

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


SQRT = "    if x:\n        y = math.sqrt(x)\n"


@pytest.mark.parametrize(
    ("old", "new", "was", "is_now"),
    [
        # Written without indentation: the program's is added, and empty lines stay empty.
        ("math.sqrt(x)\n\nreturn y", "x\n\nif y:\n    return y",
         "math.sqrt(x)\n\n        return y", "x\n\n        if y:\n            return y"),
        ("if x:\n    y = math.sqrt(x)", "if x:\n    y = math.exp(x)", "sqrt", "exp"),
        # Pasted as they are in the program, whole or from the middle of a line on.
        (SQRT, "    if x:\n        y = math.exp(x)\n", "sqrt", "exp"),
        (SQRT.strip(), "if x:\n        y = math.exp(x)", "sqrt", "exp"),
        ("        y = math.sqrt(x)\n", "        y = x\n        y = 1\n",
         "y = math.sqrt(x)", "y = x\n        y = 1"),
        ("        return y\n    return", "        return 1\n    return", "return y", "return 1"),
        # Without indentation, new lines would end the function; but they need not be lines.
        (SQRT, "", SQRT, ""),
        (SQRT.lstrip(), "z = y = x\n", SQRT, "    z = y = x\n"),
    ],
)  # fmt: skip
def test_lines_of_a_change_are_pasted_or_written_at_the_left_margin(old, new, was, is_now):
    assert changed(REFERENCE, (Change(old, new),)) == REFERENCE.replace(was, is_now) != REFERENCE


def test_changes_are_made_in_the_program_as_it_was():
    two = (Change("return y", "return math.sqrt(x)"), Change("y = math.sqrt(x)", "y = 0"))
    without = REFERENCE.replace("y = math.sqrt(x)", "y = 0")
    expected = without.replace("return y", "return math.sqrt(x)")
    assert expected == changed(REFERENCE, two) == changed(REFERENCE, two[::-1])


INDENT_BOTH = (
    "the `-` lines are indented as in the program, and the `+` lines begin at the left margin: "
    "`y = x`; indent both, or write both at the left margin"
)
APART = f"; {known_mistakes.AT_THE_MARGIN}; {known_mistakes.APART}"
ONCE = "expected the `-` lines exactly once, got"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([(SQRT, "y = x\n")], INDENT_BOTH),
        ([(SQRT.lstrip(), "if x:\ny = x\n")], INDENT_BOTH),
        ([("return z", "")], f"{ONCE} `return z` 0 times"),
        ([("return x", "")], f"{ONCE} `return x` 2 times"),
        ([("return y\n  return x", "")], f"{ONCE} `return y⏎  return x` 0 times{APART}"),
        ([("return y\nreturn x", "")], f"{ONCE} `return y⏎return x` 0 times{APART}"),
        ([("y = math.sqrt", ""), ("math.sqrt(x)", "")], "two changes overlap, at `math.sqrt`"),
    ],
)
def test_a_change_that_is_not_clear_is_told(changes, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        changed(REFERENCE, tuple(Change(old, new) for old, new in changes))


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


def test_any_code_is_read_as_it_is():
    """Blanks, empty lines, signs, quotes, headings in code: nothing is lost or taken for more."""
    rng = random.Random(0)
    for _ in range(500):
        old, new = (rng.choices(AWKWARD, k=rng.randint(1, 4)) for _ in range(2))
        lines = [
            f"{sign} {line}" if line else sign
            for sign, code in (("-", old), ("+", new))
            for line in code
        ]
        (got,) = entries("\n".join(["# a comment", "[m] [x] is: - y", "hint: [x] - +", *lines]))
        assert got == Edit(
            line=2, name="m", says="[x] is: - y", keys={"hint": "[x] - +"},
            changes=(Change("\n".join(old), "\n".join(new)),),
        )  # fmt: skip


def test_where_entries_and_changes_begin():
    """A heading begins an entry wherever it is, and a `-` after a `+` begins another change.

    A lone `+` replaces a text by nothing.
    """
    text = "[a] A.\n- x\n# a comment\n- y\n[b] B.\n+ z\n[c] C.\n- 1\n+\n- 2\n+ 3\n- 4\n"
    first, second, third = entries(text)
    assert (1, (Change("x\ny", ""),)) == (first.line, first.changes)
    assert (5, "z\n") == (second.line, second.source)
    assert (Change("1", ""), Change("2", "3"), Change("4", "")) == third.changes
