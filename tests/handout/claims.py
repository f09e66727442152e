"""Holds every figure of the handout against what computes it.

A chapter's claims (tests/handout/chapters/) are pieces of its text in which each figure is computed, from the reference where
it has a function for it. Every digit of the Markdown has to lie in a piece that a claim gives again character by character, in
a block of code that runs, or in a number that the order of things settles (headings, steps of a list, a problem's points). So
a digit that is changed, in the text or in what computes it, is a complaint.

    class Chapter(Claims):
        def __init__(self) -> None:
            super().__init__("05_resource_accounting.md")
            days = ra.training_days(70e9, 15e12, ra.H100_SXM, torch.bfloat16, 1024, 0.5)
            self.says(f"1,024 H100 take {n(days, '.2f')} days")       # refused: 1,024 is not computed
            self.says(f"{n(1024, ',')} H100 take {n(days, '.2f')} days")
"""

import doctest
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import torch

from grader import course as courses

HANDOUT = Path(__file__).parents[2] / "handout"
COURSE = courses.load()
DIGITS = "0123456789⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉½¼¾⅓⅔"
DIGITS_SET = frozenset(DIGITS)
OPEN, CLOSE = "\ue000", "\ue001"  # around a computed figure, inside a claim
SUPERSCRIPT = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
# Names that hold digits. No two of them differ in one digit, so a changed one is unknown.
NAMES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8",
    "float8_e4m3fn",
    "float8_e5m2",
    "e4m3",
    "e5m2",
    "e4m3fn",
    "fp64",
    "fp32",
    "fp16",
    "bf16",
    "fp8",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint16",
    "uint8",
    "complex64",
    "TF32",
    "A100",
    "UTF-8",
    "SHA-256",
    "CS336",
    "L2",
]
COUNTED = ["H100", "H200", "GPT-2", "GPT-3"]  # these differ in one digit: they stand in claims, or `mentions` counts them
# Numbers whose place in the text says what they are: headings (held by handout.site.agreement) and the steps of a list.
BY_ORDER = re.compile(r"^(#+ \d+(\.\d+)?|\d+\.)(?= )", re.MULTILINE)
PROBLEM = re.compile(r"^:::\{admonition\} Problem .*?^:::$", re.MULTILINE | re.DOTALL)  # held by handout.site.agreement
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def n(value: object, spec: str = "") -> str:
    """A computed figure in a claim: formatted by `spec` as format() does, with − for a minus; text is taken as it is."""
    if isinstance(value, Fraction):
        value = float(value)
    text = value if isinstance(value, str) else format(value, spec).replace("-", "−" if "e" not in spec else "-")
    return f"{OPEN}{text}{CLOSE}"


def power(base: int, exponent: int) -> str:
    """`2⁻¹⁴`, as a figure."""
    return n(f"{base}{str(exponent).translate(SUPERSCRIPT)}")


def short(value: float, digits: int | None = None, unit: int = 9) -> str:
    """`40.0e9`: a number as a multiple of a power of ten, with that many decimals or as many as it has, as a figure."""
    scaled = value / 10**unit
    return n(f"{_shortest(scaled) if digits is None else format(scaled, f'.{digits}f')}e{unit}")


def plain(value: float) -> str:
    """The shortest decimal form of a number, without an exponent or a needless `.0`, as a figure."""
    return n(_shortest(value))


def scientific(value: float, digits: int = 1) -> str:
    """`6.1e-5`: a number with its exponent in as few digits as it has, as a figure."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return n(f"{mantissa}e{int(exponent)}")


def _shortest(value: float) -> str:
    return f"{value:.10f}".rstrip("0").rstrip(".").replace("-", "−")


def section(name: str) -> str:
    """`5.1`, the section of a problem (by its id) or with that title, as a figure."""
    for problem in COURSE.problems:
        if problem.id == name:
            return n(problem.section)
    for path in sorted(HANDOUT.glob("[0-9]*.md")):
        if found := re.search(rf"^#+ ([\d.]+) {re.escape(name)}$", path.read_text(encoding="utf-8"), re.MULTILINE):
            return n(found[1])
    raise LookupError(f"no section or chapter of the handout has the title {name!r}")


def flat(text: str) -> str:
    """Text as a claim sees it: where a line was broken does not matter."""
    return re.sub(r"\s+", " ", text)


class Claims:
    """What the text of one page says, computed."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.texts: list[str] = []
        self.formulas: list[str] = []
        self.counts: dict[str, int] = {}

    def says(self, *claims: str) -> None:
        """The page holds each of these pieces of text, at least once. Digits are figures (see `n`) or parts of names."""
        for claim in map(flat, claims):
            literal = re.sub(f"{OPEN}.*?{CLOSE}", "", claim)
            rest = _without_names(literal, [*NAMES, *COUNTED])
            assert not any(c in DIGITS for c in rest), f"{self.page}: a digit of this claim is not computed: {_shown(claim)}"
            self.texts.append(claim.replace(OPEN, "").replace(CLOSE, ""))

    def formula(self, text: str, holds: object) -> None:
        """The page holds this formula, whose digits `holds` has checked: True, or a tensor or list of True."""
        results = torch.as_tensor(holds)
        assert results.dtype == torch.bool, f"{self.page}: nothing checks: {text}"
        assert results.numel() > 0, f"{self.page}: nothing checks: {text}"
        assert bool(results.all()), f"{self.page}: does not hold: {text}"
        self.formulas.append(flat(text))

    def mentions(self, name: str, times: int) -> None:
        """Outside of claims, the page names `name` that many times."""
        self.counts[name] = times

    def complaints(self, markdown: str) -> list[str]:
        """What of this page is not as computed; nothing where all is well. Code is not run (see `run_code`)."""
        markdown = PROBLEM.sub(lambda m: _blank(m[0]), markdown)
        markdown = CODE.sub(lambda m: _blank(m[0]), markdown)
        found = _steps_out_of_order(self.page, markdown)
        text = flat(BY_ORDER.sub(lambda m: _blank(m[0]), markdown))
        covered = bytearray(len(text))
        for claim in [*self.texts, *self.formulas]:
            starts = list(_places(claim, text))
            if not starts:
                found.append(f"{self.page} does not say: {claim}")
            for start in starts:
                covered[start : start + len(claim)] = b"\1" * len(claim)
        free = "".join(" " if covered[i] else c for i, c in enumerate(text))
        for name, times in self.counts.items():
            got = free.count(name)
            if got != times:
                found.append(f"{self.page} names {name} {got} times outside of claims, not {times}")
            free = free.replace(name, " " * len(name))
        free = _without_names(free)
        for match in re.finditer(rf"[\w.,]*[{DIGITS}][\w.,]*", free):
            around = text[max(0, match.start() - 50) : match.end() + 30]
            found.append(f"{self.page}: nothing computes {match[0]!r} in: …{around}…")
        return found


def _places(claim: str, text: str) -> Iterator[int]:
    """Where a claim stands in the text, and not as a part of a longer number."""
    start = text.find(claim)
    while start >= 0:
        stop = start + len(claim)
        if text[start - 1 : start] not in DIGITS_SET and text[stop : stop + 1] not in DIGITS_SET:
            yield start
        start = text.find(claim, start + 1)


def _steps_out_of_order(page: str, markdown: str) -> list[str]:
    steps = [(int(m[1]), m.start()) for m in re.finditer(r"^(\d+)\. ", markdown, re.MULTILINE)]
    before = 0
    for number, start in steps:
        if number not in (1, before + 1):
            return [f"{page}: step {number} comes after {before}: {markdown[start : start + 40]!r}"]
        before = number
    return []


def _without_names(text: str, names: list[str] = NAMES) -> str:
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    # A letter with an index (W₁, W_1, x_{12}) is a name too: where it is wrong the formula around it is.
    return re.sub(
        rf"(?<![\w-])({known})(?!\w)|(?<=[A-Za-zα-ωΑ-Ω̂])[₀-₉]+|(?<=[A-Za-z])_\{{?\d\}}?", lambda m: " " * len(m[0]), text
    )


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _shown(claim: str) -> str:
    return claim.replace(OPEN, "⟨").replace(CLOSE, "⟩")


# --- code ---------------------------------------------------------------------------------------------------------------


@contextmanager
def reference_as_assignment() -> Iterator[None]:
    """`import assignment.linear` gives the reference: the code of the handout runs as it will for a student who is done."""
    modules = {"assignment": import_module("grader.reference")}
    modules |= {f"assignment.{name}": import_module(f"grader.reference.{name}") for name in COURSE.modules}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def run_code(page: str, markdown: str) -> list[str]:
    """Run the Python blocks of a page in order, as one session, and complain where a block does not print what stands there."""
    said: list[str] = []
    names: dict[str, object] = {}
    with reference_as_assignment(), torch.random.fork_rng():
        torch.manual_seed(0)
        for block in CODE.finditer(markdown):
            line = markdown.count("\n", 0, block.start()) + 1
            test = doctest.DocTestParser().get_doctest(block[1], names, page, page, line)
            if not any(example.want for example in test.examples):
                said.append(f"{page}:{line}: a block of code that prints nothing shows nothing: end it with what it returns")
            doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append, clear_globs=False)
            names = test.globs
    return said
