"""Untrusted text is shown in characters that have no effect on a terminal or a page."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.safe_text import UNSAFE, message_of, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines", "two\nlines"),
        ("é ñ 数 · — ✓ 🙂", "é ñ 数 · — ✓ 🙂"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb", r"a\rb"),
        ("a\tb", r"a\tb"),
        ("a\0b\x7f", r"a\x00b\x7f"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("\ud800", r"\ud800"),
        ("\ue000\U000f0000", r"\ue000\U000f0000"),
        ("\U000e0041", r"\U000e0041"),
        ("\\x1b", r"\x1b"),
        ("", ""),
    ],
    ids=ascii,
)
def test_what_is_not_plain_is_shown_as_an_escape(text, shown):
    """Colours, carriage returns, bidi controls, invisible characters; line ends stay."""
    assert shown == printable(text, 100)


@pytest.mark.parametrize(
    ("text", "shown"), [("abcd", "abcd"), ("abcde", "abcd…"), ("\x1b" * 5, r"\x1b" * 4 + "…")]
)
def test_a_long_text_is_cut_and_says_so(text, shown):
    """The limit counts the original characters, so no escape is cut in two."""
    assert shown == printable(text, 4)


@given(st.text(st.characters(exclude_categories=())))
def test_no_unsafe_character_is_left(text):
    shown = printable(text, 1000)
    assert not any(unicodedata.category(c) in UNSAFE for c in shown if c != "\n")
    assert text.count("\n") == shown.count("\n")
    shown.encode()


REFUSAL = (
    "Weights only load failed. \x1b[1mtrust the source\x1b[0m Re-running with weights_only=False"
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("\x1b[1;31mbold\x1b[0m and plain", "bold and plain"),
        ("\x1b[2J", "\x1b[2J"),
        (
            f"{REFUSAL} Unsupported global: GLOBAL posix.mkdir was not an allowed global",
            "torch.load refuses the file: it contains posix.mkdir, which is neither a tensor nor "
            "plain data",
        ),
        (
            f"{REFUSAL} WeightsUnpickler error: \n\nUnsupported operand 149\n",
            "torch.load refuses the file: it contains operand 149, which is neither a tensor nor "
            "plain data",
        ),
        (REFUSAL, "torch.load refuses the file, which is neither a tensor nor plain data"),
    ],
    ids=["styles", "other codes", "global", "operand", "neither"],
)
def test_a_message_for_a_student_has_no_styles_and_no_advice_of_torch(text, read):
    """Codes that do more than a style stay, and are escaped where they are printed."""
    assert read == message_of(text)
