"""Check every figure of the handout against the code that computes it.

In the Markdown, each figure has a mark with an id, as in `it takes [143.93]{#days} days`. No reader
sees the marks (see grader/base/markdown_figures.py). A page's figures (tests/handout/chapters/)
give the value of each id, computed from the reference where it has a function for the value. A
sentence is therefore written once, and a figure twice: in the text and in the code that gives it.

Every digit has to be part of a figure, of a block of code that runs, of a name, or of a number that
its position determines (headings, steps of a list, links to chapters). Any other digit is a
complaint with its line. Only the numbers 0 and 1 need no mark.

    class Chapter(Figures):
        def run(self) -> None:
            days = ra.training_days(70e9, 15e12, ra.H100_SXM, torch.bfloat16, 1024, 0.5)
            self.gives(devices=1024, days=days, rate=(3, 2, 1.5))
            self.gives(rule=f"{n(6)}ND", run="6ND")  # the second is refused: 6 is not computed

The page decides how a number is written: `[1,024]{#devices}`, `[143.93]{#days}` and
`[3 / 2 = 1.5]{#rate}` are right, and so would be `[143.9]{#days}`.
"""

import doctest
import inspect
import math
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from grader.base.markdown_figures import MARK, without_marks
from grader.course import courses
from handout.site import wren

HANDOUT = Path(__file__).parents[2] / "handout"
COURSE = courses.load()
# The title and the sections of each page of a chapter; a long chapter has several pages.
HEADINGS = {
    path.stem: re.findall(r"^##? (\d.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    for path in sorted(HANDOUT.glob("[0-9]*.md"))
}
SECTIONS = {
    title: number
    for _, *sections in HEADINGS.values()
    for number, _, title in (heading.partition(" ") for heading in sections)
}
CHAPTERS = [*HEADINGS]
# The pages in the order of the side bar.
IN_ORDER = re.findall(r"^(\w+)$", (HANDOUT / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
DIGITS = "0123456789⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉½¼¾⅓⅔"
NEED_NO_MARK = ("0", "1")  # with marks, `stride[d + 1]` could not be read in the source
OPEN, CLOSE = "\ue000", "\ue001"  # mark the computed parts of a value
NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[−-])?(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<decimals>\d+))?"
    r"(?:e(?P<unit>[−-]?\d+)|(?P<power>⁻?[⁰¹²³⁴-⁹]+))?"
)
# Names that contain digits. No two of them differ in only one digit, so a name with a changed digit
# is unknown. (GPT-2 and H200 are figures.)
NAMES = re.compile(
    r"(?<![\w-])(float64|float32|float16|bfloat16|float8_e4m3fn|float8_e5m2|float8|e4m3fn|e4m3|e5m2"
    r"|E2M1|E4M3|E5M2|E8M0|NVFP4|fp64|fp32|fp16|bf16|fp8|int64|int32|int16|int8|uint16|uint8|TF32"
    r"|complex64|set_float32_matmul_precision|A100|H100|UTF-8|SHA-256|CS336|GPT-3|L2)(?!\w)"
)
# Numbers that their position determines: headings of chapters (checked by handout.site.agreement)
# and the steps of a list.
BY_ORDER = re.compile(r"^(#+ \d+(\.\d+)?|\d+\.)(?= )", re.MULTILINE)
# A block may be indented, as in the answer to an exercise.
CODE = re.compile(
    r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


def n(value: object, spec: str = "") -> str:
    """A computed figure.

    A number is formatted by `spec` as in format(), with − as the minus sign. Text is left
    unchanged.
    """
    if not isinstance(value, str):
        value = format(float(value) if isinstance(value, Fraction) else value, spec)
        value = value if "e" in spec else value.replace("-", "−")
    return f"{OPEN}{value}{CLOSE}"


def numbers_in(value: object) -> Iterator[float]:
    """The numbers of a number, a tensor, or a list of these."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, tuple | list):
        for part in value:
            yield from numbers_in(part)
    else:
        yield value


@cache
def as_written(text: str, numbers: tuple[float, ...]) -> str:
    """The text with these numbers instead of its own, each written as the text's own is.

    Words belong outside of a figure, so the text has none, and its equations hold.
    """
    left = list(numbers)
    expected = NUMBER.sub(lambda own: _rendered(own, left.pop(0)) if left else "", text)
    if left or any(c.isalpha() for c in NUMBER.sub("", text).replace(" and ", "")):
        return " ".join(map(str, numbers))
    return expected if expected != text or _holds(text) else "an equation that holds"


def _rendered(own: re.Match[str], value: float) -> str:
    """A number with as many decimals as the text's own, its separators and its power of ten."""
    sign, places = own["sign"] or "−", len(own["decimals"] or "")
    if own["power"]:
        base = Fraction(own[0].removesuffix(own["power"]).replace(",", "").replace("−", "-"))
        exponent = int(unicodedata.normalize("NFKC", own["power"]).replace("−", "-"))
        is_equal = base and abs(Fraction(value) / base**exponent - 1) < 1e-9
        return own[0] if is_equal else str(value)
    unit, group = int((own["unit"] or "0").replace("−", "-")), "," if "," in own["digits"] else ""
    if unit or isinstance(value, Fraction):
        exact = Fraction(value) / Fraction(10) ** unit
        if abs(exact) > sys.float_info.max:
            return str(value)
        value = float(exact)
    form = f"{group}.{places}f" if places or isinstance(value, float) else group
    text = format(abs(value), form)
    text = f"{text}e{own['unit']}" if own["unit"] else text
    return f"{sign}{text}" if value < 0 and text.strip("0.,") else text


def _holds(text: str) -> bool:
    """Whether the sides of each equation agree to a few percent, as their numbers are rounded.

    Two parts that agree have to be an equation: 100 / 7 + 14.3 was meant as one.
    """
    for cell in re.split("[|<]", text):
        first, *others = re.split("[=≈]", cell)
        if not all(_agree(first, side) for side in others):
            return False
        for operator in re.finditer(r" [+·×/−] ", cell if not others else ""):
            parts = cell[: operator.start()], cell[operator.end() :]
            if re.search("[+·×/−√⁰-⁹]", parts[0] + parts[1]) and _agree(*parts):
                return False
    return True


def _agree(one: str, other: str) -> bool:
    try:
        pairs = zip(_evaluated(one), _evaluated(other), strict=True)
        return all(math.isclose(a, b, rel_tol=0.03) for a, b in pairs)
    except (ArithmeticError, NameError, SyntaxError, TypeError, ValueError):
        return False


def _evaluated(side: str) -> list[float]:
    side = re.sub(r"(?<=\d),(?=\d{3})", "", side)
    side = re.sub(r"√([\d.]+)", r"sqrt(\1)", side).replace("√(", "sqrt(")
    side = re.sub(r"⁻?[⁰¹²³⁴-⁹]+", lambda m: f"**({unicodedata.normalize('NFKC', m[0])})", side)
    for old, new in zip("·×⌈⌉", ("*", "*", "ceil(", ")"), strict=True):
        side = side.replace(old, new)
    names = {"__builtins__": {}, "sqrt": math.sqrt, "ceil": math.ceil}
    return list(numbers_in(eval(side.strip().replace("−", "-"), names)))


def flat(text: str) -> str:
    """The text with each run of white space as one space, so that line breaks do not matter."""
    return re.sub(r"\s+", " ", text)


def _everywhere() -> dict[str, list[str]]:
    """The values that every page may use.

    These are the section of each problem, the chapter of each module, the figures of Wren (the
    model that all chapters follow), and GPT-2.
    """
    values = {"gpt2": "GPT-2"}
    values |= {f"section_{problem.id}": problem.section for problem in COURSE.problems}
    values |= {f"chapter_{module}": str(number) for number, module in enumerate(COURSE.modules, 1)}
    values |= {"section_devices": SECTIONS["Several devices"]}
    values |= {"section_decoding": SECTIONS["Decoding"]}
    values |= {
        "wren_size": f"{wren.PARAMETERS / 1e9:.2f}e9", "wren_exact": f"{wren.PARAMETERS:,}",
        "wren_tokens": f"{wren.TOKENS / 1e9:.1f}e9", "wren_layers": f"{wren.WREN.num_layers}",
        "wren_width": f"{wren.WREN.d_model:,}", "wren_ff": f"{wren.WREN.d_ff:,}",
        "wren_heads": f"{wren.WREN.num_heads}", "wren_vocabulary": f"{wren.WREN.vocab_size:,}",
        "wren_context": f"{wren.WREN.context_length:,}", "wren_sequences": f"{wren.SEQUENCES}",
        "wren_micro_batch": f"{wren.MICRO_BATCH}", "wren_steps": f"{wren.STEPS:,}",
        "wren_devices": f"{wren.DEVICES}", "wren_mfu": f"{wren.MFU}",
        "wren_hours": f"{wren.HOURS:.1f}", "wren_dollars": f"{wren.DOLLARS:.0f} dollars",
        "wren_rate": f"{wren.DOLLARS_PER_HOUR:.0f} dollars",
    }  # fmt: skip
    assert wren.STEPS * wren.STEP_TOKENS == wren.TOKENS
    return {name: [value] for name, value in values.items()}


EVERYWHERE = _everywhere()


class Figures:
    """The value of each figure of one page, by the figure's id.

    A page's class has a method for each part of the page; all of them run, in their order.
    """

    def __init__(self, page: str) -> None:
        self.page = page
        self.values: dict[str, list[str | tuple[float, ...]]] = {}
        for part in vars(type(self)).values() if type(self) is not Figures else ():
            if inspect.isfunction(part) and list(inspect.signature(part).parameters) == ["self"]:
                part(self)

    def gives(self, **values: object) -> None:
        """Give the values of the figures with these ids.

        A value is a number, several numbers, or a text in which every digit belongs to a figure
        (see `n`) or to a name. The values of an id with several values come in the order of the
        page, such as the rows of a table.
        """
        for name, value in values.items():
            if not isinstance(value, str):
                self._add(name, tuple(numbers_in(value)))
                continue
            literal = re.sub(f"{OPEN}.*?{CLOSE}", "", value, flags=re.DOTALL)
            literal = _without_indices(_without_names(literal))
            assert not any(c in DIGITS for c in literal), (
                f"{self.page}: a digit of {name} is not computed: {_shown(value)}"
            )
            self._add(name, flat(value.replace(OPEN, "").replace(CLOSE, "")))

    def formula(self, name: str, text: str, holds: object) -> None:
        """Give the figure `name` a formula as its value.

        `holds` is the check of the formula's digits: True, or a tensor or list of True.
        """
        results = torch.as_tensor(holds)
        assert results.dtype == torch.bool, f"{self.page}: nothing checks: {text}"
        assert results.numel() > 0, f"{self.page}: nothing checks: {text}"
        assert bool(results.all()), f"{self.page}: does not hold: {text}"
        self._add(name, flat(text))

    def _add(self, name: str, value: str | tuple[float, ...]) -> None:
        assert name not in EVERYWHERE, f"{self.page}: {name} is already defined for every page"
        self.values.setdefault(name, []).append(value)

    def complaints(self, markdown: str) -> Iterator[str]:
        """What on this page differs from the computed values. Code is not run (see `run_code`)."""
        markdown = CODE.sub(lambda m: _blank(m[0]), markdown)
        yield from _steps_out_of_order(self.page, markdown)
        for match in re.finditer(r"^ *\+ .*", markdown, re.MULTILINE):
            yield f"{self.page}: a line that begins with a plus becomes a list: {match[0]!r}"
        yield from _rows_of_other_lengths(self.page, markdown)
        yield from self._wrong_figures(markdown)
        is_chapter = self.page[0].isdigit()
        text = BY_ORDER.sub(
            lambda m: _blank(m[0]) if is_chapter or m[0][0] != "#" else m[0], markdown
        )
        text = MARK.sub(lambda m: _blank(m[0]), text)
        wrong, text = _links(self.page, text, without_marks(markdown))
        for match in re.finditer(rf"[\w.,]*[{DIGITS}][\w.,]*|\]\{{#\w*", _without_names(text)):
            if match[0].strip(".,") in NEED_NO_MARK:
                continue
            around = flat(markdown[max(0, match.start() - 50) : match.end() + 30])
            is_end = match[0].startswith("]")
            what = "a figure begins nowhere" if is_end else f"nothing computes {match[0]!r}"
            yield f"{self.page}:{_line(markdown, match.start())}: {what} in: …{around}…"
        yield from wrong

    def _wrong_figures(self, markdown: str) -> Iterator[str]:
        """Complain about wrong figures, figures without a value and values without a figure."""
        seen = Counter[str]()
        for mark in MARK.finditer(markdown):
            name, got = mark[2], flat(mark[1])
            values = self.values.get(name) or EVERYWHERE.get(name, [])
            same, wrong = len(set(values)) == 1, ""
            if not values:
                wrong = (
                    f"expected a value with this id in tests/handout/chapters, got none for {got!r}"
                )
            elif not same and seen[name] >= len(values):
                wrong = f"expected no more than {len(values)} figures with this id, got {got!r}"
            elif got != (expected := _expected(values[0 if same else seen[name]], got)):
                wrong = f"expected {expected!r}, got {got!r}"
            if wrong:
                yield f"{self.page}:{_line(markdown, mark.start())}: {name}: {wrong}"
            seen[name] += 1
        for name, values in self.values.items():
            needed = 1 if len(set(values)) == 1 else len(values)
            if seen[name] < needed:
                shown = [v if isinstance(v, str) else " ".join(map(str, v)) for v in values]
                expected = f"expected figures with the values {shown}"
                yield f"{self.page}: {name}: {expected}, got {seen[name]} figures"


def _expected(value: str | tuple[float, ...], got: str) -> str:
    return value if isinstance(value, str) else as_written(got, value)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _links(page: str, text: str, read: str) -> tuple[list[str], str]:
    """Check links, and remove the numbers of links from the text.

    Returns the links whose numbers differ from those of their pages, and the text without the
    numbers of correct links. `read` is the same text as a reader sees it, with the numbers of
    sections.
    """
    found = []
    for section, linked in re.findall(r"\[§(\d+\.\d+)\]\((\d\w+)\.md\)", read):
        if not any(heading.startswith(f"{section} ") for heading in HEADINGS.get(linked, [])):
            found.append(f"{page}: expected a link to the page of §{section}, got {linked}.md")

    def known(link: re.Match[str]) -> str:
        words, name = link[1], link[2]
        right = name in HEADINGS and words in (
            HEADINGS[name][0],
            f"chapter {int(name[:2])}",
            f"Chapter {int(name[:2])}",
        )
        return _blank(link[0]) if right else link[0]

    text = re.sub(r"\[((?:[Cc]hapter )?\d[^\]]*)\]\((\w+)\.md\)", known, text)
    return found, re.sub(r"\b\d\d_\w+", lambda m: _blank(m[0]) if m[0] in HEADINGS else m[0], text)


def _steps_out_of_order(page: str, markdown: str) -> list[str]:
    steps = [(int(m[1]), m.start()) for m in re.finditer(r"^(\d+)\. ", markdown, re.MULTILINE)]
    before = 0
    for number, start in steps:
        if number not in (1, before + 1):
            return [f"{page}: step {number} comes after {before}: {markdown[start : start + 40]!r}"]
        before = number
    return []


def _rows_of_other_lengths(page: str, markdown: str) -> Iterator[str]:
    for table in re.finditer(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        head, *rows = table[0].splitlines()
        for row in rows:
            if row.count("|") != head.count("|"):
                yield f"{page}: expected as many cells as the table's head has, got: {row}"


def _without_names(text: str) -> str:
    return NAMES.sub(lambda m: _blank(m[0]), text)


def _without_indices(text: str) -> str:
    """The text without the indices of letters, such as the index of W₁.

    An indexed letter is a name inside a value; the formula around it has to be checked instead.
    """
    return re.sub(r"(?<=[A-Za-zα-ωΑ-Ω̂])[₀-₉]+", "", text)


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _shown(claim: str) -> str:
    return claim.replace(OPEN, "⟨").replace(CLOSE, "⟩")


# --- code -----------------------------------------------------------------------------------------


@contextmanager
def reference_as_assignment() -> Iterator[None]:
    """Make `import assignment.linear` return the reference.

    The handout's code then runs as it would for a student who has solved every problem.
    """
    modules = {"assignment": import_module("grader.solutions.reference")}
    modules |= {
        f"assignment.{name}": import_module(f"grader.solutions.reference.{name}")
        for name in COURSE.modules
    }
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


def run_code(page: str, markdown: str) -> tuple[list[str], dict[str, object]]:
    """Run the Python blocks of a page in order, as one session.

    Returns a complaint for each block that does not print what the page shows, and what the blocks
    have defined.
    """
    said: list[str] = []
    names: dict[str, object] = {}
    with reference_as_assignment(), torch.random.fork_rng():
        torch.manual_seed(0)
        for block in CODE.finditer(markdown):
            line = markdown.count("\n", 0, block.start()) + 1
            test = doctest.DocTestParser().get_doctest(block["code"], names, page, page, line)
            if not any(example.want for example in test.examples):
                said.append(
                    f"{page}:{line}: a block of code prints nothing: end it with an expression"
                )
            doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
                test, out=said.append, clear_globs=False
            )
            names = test.globs
    return said, names


@cache
def session(page: str) -> tuple[list[str], SimpleNamespace]:
    """The same for a page as it is, which runs once."""
    said, names = run_code(page, (HANDOUT / page).read_text(encoding="utf-8"))
    return said, SimpleNamespace(**names)
