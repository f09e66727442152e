"""A notebook for each chapter, made from its Markdown: text, and the blocks of code as cells.

A cell ends where the page shows a result, and stores that result as its output. What only the site
can show (pictures, calculators, quizzes) becomes a sentence with the section. The format is that of
"The Notebook file format" (nbformat 4.5); `@title` and `cellView` are those of Colab's forms.
"""

import json
import re
from collections.abc import Iterable, Iterator
from doctest import DocTestParser, Example
from functools import cache
from itertools import groupby
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from pybtex.database import Entry, parse_file  # type: ignore[import-untyped]

from grader.course.courses import Course
from handout.site import agreement, calculator_formulas, quizzes

FOLDER = "notebooks"  # of the site
BIBLIOGRAPHY = Path(__file__).parents[1] / "bibliography.bib"
FENCE = re.compile(
    r"(?P<indent> *)(?P<fence>`{3,}|:{3,})(?:\{(?P<name>\w+)\} *(?P<argument>.*)|(?P<language>\w*))"
)
INTRODUCTION = (
    "*This is a chapter of the handout as a notebook. Run the next cell first, then the others "
    "from top to bottom. Many cells call functions of yours: solve those first. The last cell asks "
    "the chapter's bets and quizzes, and keeps a score that nobody else sees.*"
)
ASKS = """# @title Run this cell: it asks the bets and quizzes that you have not answered yet
from flight import bets
_ = bets.main(Path(bets.__file__).parents[1], ["{page}"])"""
SETUP = '''# @title Run this cell first: it installs what is missing and finds your code
import importlib.util, os, subprocess, sys, traceback, urllib.request, zipfile
from pathlib import Path

PACKAGES, BUNDLE = {packages}, {bundle}
missing = [what for name, what in PACKAGES.items() if importlib.util.find_spec(name) is None]
if missing:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing])

def find_assignment():
    """The folder that contains assignment/: here, on the Drive, in a zip file, or fetched."""
    def has_code(place):
        return (place / "assignment" / "__init__.py").is_file()

    here = Path.cwd()
    places = [here, *here.parents, here / "student", Path("/content/drive/MyDrive/student")]
    if not any(map(has_code, places)) and not (here / "student").exists():
        if BUNDLE and not any(here.glob("*.zip")):
            urllib.request.urlretrieve(BUNDLE, here / "student.zip")
        for archive in filter(zipfile.is_zipfile, sorted(here.glob("*.zip"))):
            with zipfile.ZipFile(archive) as files:
                if any(name.endswith("assignment/__init__.py") for name in files.namelist()):
                    files.extractall(here / "student")
    places += sorted(path for path in (here / "student").glob("*") if path.is_dir())
    return next(filter(has_code, places), None)

def told_briefly(shell, kind, error, trace, tb_offset=None):
    last = traceback.extract_tb(trace)[-1]
    if kind is NotImplementedError:
        print(f"Not solved yet: {{last.name}} ({{error}}).")
    elif last.name.startswith("<"):  # the cell itself
        print(f"{{error}}: a cell above did not run to its end, or it did not find your code.")
    else:
        shell.showtraceback((kind, error, trace))

folder, why = None, ""
try:
    folder = find_assignment()
except OSError as error:
    why = f" ({{BUNDLE}} cannot be fetched: {{error}})"
if folder is None:
    print(f"Your code is not here{{why}}: zip your folder as student.zip, upload it (in Colab: "
          "Files, in the bar on the left), and run this cell again.")
else:
    sys.path.insert(0, str(folder))
    os.chdir(folder)  # for commands such as `!python -m assignment`
    print(f"Your code is in {{folder / 'assignment'}}.")
if "get_ipython" in globals():
    get_ipython().set_custom_exc(
        (NotImplementedError, NameError, ModuleNotFoundError), told_briefly)
    get_ipython().run_line_magic("load_ext", "autoreload")
    get_ipython().run_line_magic("autoreload", "2")

import torch
_ = torch.manual_seed(0)  # for the numbers of the page'''
FORM = {"cellView": "form"}
# A zip that GitHub makes of a repository. Colab opens a notebook of it by an address.
ON_GITHUB = re.compile(
    r"https://github\.com/([\w.-]+/[\w.-]+)/archive/(?:refs/heads/)?([\w.-]+)\.zip"
)


class Block(NamedTuple):
    """A block of code of a page; `answer` if it belongs to the answer to an exercise."""

    code: str
    answer: bool = False


def written(course: Course) -> dict[str, str]:
    """The notebook of each chapter as JSON, by the chapter's name."""
    pages = {name.removesuffix(".md"): text for name, text in agreement.pages().items()}
    return {name: _as_json(course, name, pages[name]) for name in pages if name[:1].isdigit()}


def in_colab(course: Course, name: str) -> str:
    """The address that opens a chapter's notebook in Colab; "" if the bundle is not on GitHub."""
    found = ON_GITHUB.fullmatch(course.bundle_url)
    path = f"handout/site/{FOLDER}/{name}.ipynb"
    base = "https://colab.research.google.com/github"
    return f"{base}/{found[1]}/blob/{found[2]}/{path}" if found else ""


def _as_json(course: Course, name: str, markdown: str) -> str:
    asks = _code_cell(ASKS.format(page=int(name[:2])), [], FORM)
    every = enumerate([*_cells(course, markdown), asks])
    cells = [{"id": f"{name}-{number}", **cell} for number, cell in every]
    metadata = {
        "colab": {"provenance": []},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _cells(course: Course, text: str) -> Iterator[dict[str, Any]]:
    title, _, rest = _inline(text).partition("\n")
    yield _text_cell(f"{title}\n\n{INTRODUCTION}")
    packages = {Requirement(package).name: package for package in course.packages}
    setup = SETUP.format(packages=json.dumps(packages), bundle=json.dumps(course.bundle_url))
    yield _code_cell(setup, [], FORM)
    where = "this chapter"
    for section in re.split(r"^(?=##+ )", rest, flags=re.MULTILINE):
        if heading := re.match(r"## (?:(\d\S*)|(.*))", section):
            where = f"section {heading[1]}" if heading[1] else f"“{heading[2]}”"
        for part in _joined(_parts(section.splitlines(), where)):
            if isinstance(part, Block):
                yield from _cells_of_code(part)
            elif part.strip():
                yield _text_cell(part)


def _parts(lines: list[str], where: str) -> Iterator[str | Block]:
    """Lines of Markdown and blocks of code, without directives."""
    rest = iter(lines)
    for line in rest:
        opened = FENCE.fullmatch(line.rstrip())
        if not opened:
            yield line
            continue
        end = opened["indent"] + opened["fence"]
        inside = []
        for one in rest:
            if one.rstrip() == end:
                break
            inside.append(one)
        body = dedent("\n".join(inside)).splitlines()
        for part in _directive(opened, body, where):
            yield indent(part, opened["indent"]) if isinstance(part, str) else part


def _directive(opened: re.Match[str], body: list[str], where: str) -> Iterator[str | Block]:
    name, argument = opened["name"], opened["argument"]
    match name:
        case None if opened["language"] == "python":
            yield Block("\n".join(body) + "\n")
        case None:
            yield "\n".join([opened["fence"] + opened["language"], *body, opened["fence"]])
        case "admonition":
            yield from _quoted(argument, _parts(_without_options(body), where))
        case "answer":
            yield from _folded(_parts(body, where))
        case "picture":
            yield f"*Picture in {where} of the handout: {' '.join(body)}*"
        case "calculator":
            title = calculator_formulas.load()[argument].title
            yield f"*Calculator in {where} of the handout: {title}.*"
        case "quiz":
            title = quizzes.title(argument)
            yield f"*{title}, in {where} of the handout: the last cell asks it.*"
        case _:
            raise ValueError(f"expected a directive that notebooks know, got {name!r}")


def _without_options(body: list[str]) -> list[str]:
    return "\n".join(x for x in body if not re.match(r":\w+: ", x)).strip("\n").splitlines()


def _quoted(title: str, parts: Iterator[str | Block]) -> Iterator[str | Block]:
    """A box as a quotation. Formulas are put on one line, because `>` would be part of them."""
    for joined in _joined([f"**{title}**", "", *parts]):
        if isinstance(joined, Block):
            yield joined
            continue
        text = re.sub(r"(\$+)[^$]+\1", lambda m: m[0].replace("\n", " "), joined.strip("\n"))
        yield "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _folded(parts: Iterator[str | Block]) -> Iterator[str | Block]:
    """An answer that opens on a click; its code is in cells of their own, which are closed, too."""
    for part in _joined(parts):
        if isinstance(part, Block):
            yield part._replace(answer=True)
        elif part.strip():
            summary = "<details><summary>Answer</summary>"
            yield f"{summary}\n\n{part.strip(chr(10))}\n\n</details>"


def _joined(parts: Iterable[str | Block]) -> Iterator[str | Block]:
    """The parts with each run of text as one text."""
    for kind, run in groupby(parts, type):
        together = list(run)
        yield from together if kind is Block else ["\n".join(map(str, together))]


def _inline(text: str) -> str:
    """Cited works with their addresses, and links to other pages as plain words."""
    text = re.sub(r"\{cite:t\}`(\w+)`", lambda m: _cited(_bibliography()[m[1]]), text)
    return re.sub(r"\[([^\[\]]+)\]\(\w+\.md\)", r"\1", text)


@cache
def _bibliography() -> dict[str, Entry]:
    return dict(parse_file(BIBLIOGRAPHY).entries)


def _cited(entry: Entry) -> str:
    parts = [[*one.rich_prelast_names, *one.rich_last_names] for one in entry.persons["author"]]
    people = [" ".join(map(str, part)) for part in parts]
    names = f"{people[0]} et al." if len(people) > 2 else " and ".join(people)
    words = f"{names} ({entry.fields['year']})"
    return f"[{words}]({address})" if (address := address_of(entry)) else words


def address_of(entry: Entry) -> str:
    """The address of a cited work; "" if it has none, as old works."""
    url, doi = entry.fields.get("url", ""), entry.fields.get("doi")
    return str(url or (f"https://doi.org/{doi}" if doi else ""))


def _cells_of_code(block: Block) -> Iterator[dict[str, Any]]:
    examples: list[Example] = []
    for example in DocTestParser().get_examples(block.code):
        examples.append(example)
        if example.want:
            yield _example_cell(examples, block.answer)
            examples = []
    if examples:
        yield _example_cell(examples, block.answer)


def _example_cell(examples: list[Example], answer: bool) -> dict[str, Any]:
    # An unsolved problem does not stop the cells below.
    metadata: dict[str, Any] = {"tags": ["raises-exception"]}
    last = examples[-1]
    source = "".join(one.source for one in examples[:-1]) + _source(last)
    if answer:
        source = f"# @title Answer\n{source}"
        hidden = {"outputs_hidden": True, "source_hidden": True}
        metadata |= {"cellView": "form", "collapsed": True, "jupyter": hidden}
    return _code_cell(source.rstrip("\n"), _outputs(last), metadata)


def _source(example: Example) -> str:
    """The source; an error that the page shows is caught, so that the cells below run."""
    if not example.exc_msg:
        return example.source
    kind = example.exc_msg.partition(":")[0]
    return (
        f"try:\n{indent(example.source, '    ')}"
        f'except {kind} as error:\n    print(f"{{type(error).__name__}}: {{error}}")\n'
    )


def _outputs(example: Example) -> list[dict[str, Any]]:
    """What the page shows below an example."""
    text = (example.exc_msg or example.want).replace("<BLANKLINE>\n", "\n")
    return [{"name": "stdout", "output_type": "stream", "text": _lines(text)}] if text else []


def _text_cell(text: str) -> dict[str, Any]:
    # A list that a cell of code interrupts goes on indented.
    text = re.sub(r"\n{3,}", "\n\n", dedent(text.strip("\n")))
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code_cell(
    source: str, outputs: list[dict[str, Any]], metadata: dict[str, Any]
) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": outputs,
        "source": _lines(source),
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
