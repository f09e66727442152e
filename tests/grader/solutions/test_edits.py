"""The format of wrong solutions: any code is read back as it was written, and faults have lines."""

import random

import pytest

from grader.solutions.edits import BadLine, Change, Edit, entries, written

AWKWARD = (
    *("", "x", "  x", "x  ", "\tx", "- x", "+ x", "-", "+", "[x] y", "[base x]", "hint: x", "# x"),
    *("'''", '"""', "\\n", "\x0c", "\x85", "\u2028", "√ε", "most: 1", "[", " "),
)


def code(rng):
    """Some lines of code, which look like everything that the format has."""
    return "\n".join(rng.choices(AWKWARD, k=rng.randint(1, 4)))


def entry(rng, name):
    """An entry of any kind."""
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


def test_entries_need_no_empty_line_between_them():
    """A heading begins an entry wherever it is, and each has the number of its own line."""
    first, second = entries("[a] A.\n- x\n# a comment\n- y\n[b] B.\n+ z\n")
    assert (1, (Change("x\ny", ""),)) == (first.line, first.changes)
    assert (5, "z\n") == (second.line, second.source)


def test_each_change_begins_with_what_it_replaces():
    """A `-` after a `+` begins another change; a lone `+` replaces a text by nothing."""
    (got,) = entries("[a] A.\n- 1\n+\n- 2\n+ 3\n- 4\n")
    assert (Change("1", ""), Change("2", "3"), Change("4", "")) == got.changes


HEADINGS = "expected `[name] what is wrong`, `[name in BASE] what is wrong` or `[base NAME]`, got "
LINES = (
    "expected `hint: …`, `contradicts: …`, `price: …`, `most: …`, `device: …`, `unread: …`, "
    "`- code`, `+ code` or an empty line, got "
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("name: m\n", 1, HEADINGS + "`name: m`"),
        ("[m]\n- a\n", 1, HEADINGS + "`[m]`"),
        ("[m m] Wrong.\n- a\n", 1, HEADINGS + "`[m m] Wrong.`"),
        ("[base b] Right.\n+ a\n", 1, HEADINGS + "`[base b] Right.`"),
        ("[base b in c]\n+ a\n", 1, HEADINGS + "`[base b in c]`"),
        ("[m] Wrong.\n- a\n\n- b\n", 4, HEADINGS + "`- b`"),
        ("[m] Wrong.\n-a\n", 2, "expected a space after `-`, got `-a`"),
        ("[m] Wrong.\ncolour: red\n- a\n", 2, LINES + "`colour: red`"),
        ("[m] Wrong.\nreturn x\n", 2, LINES + "`return x`"),
        ("[m] Wrong.\nhint:\n- a\n", 2, LINES + "`hint:`"),
        ("[m] Wrong.\nhint: a\nhint: b\n- a\n", 3, "expected one `hint:`, got a second one"),
        ("[m] Wrong.\nhint: a\n", 1, "m: expected a `-` line before the first `+`, got no code"),
        (
            "[m] Wrong.\n+ a\n- b\n",
            1,
            "m: expected a `-` line before the first `+`, got `+` and `-`",
        ),
        ("[m in b] Wrong.\n+ a\n", 1, "m: expected a `-` line before the first `+`, got `+`"),
        ("[base b]\n- a\n+ b\n", 1, "b: expected only `+` lines, got `-` and `+`"),
        ("[base b]\nhint: c\n+ b\n", 1, "expected only `+` lines in base b, got hint"),
    ],
)
def test_what_is_wrong_in_a_line_is_told(text, line, words):
    """The number of the line, what was expected, and what is there."""
    *_, got = entries(text)
    assert isinstance(got, BadLine)
    assert (line, words) == (got.line, str(got))


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
