"""The chapters' notebooks are valid and in plain Markdown, and run from top to bottom."""

import ast
import io
import json
import re
import sys
import zipfile
from contextlib import redirect_stdout
from functools import cache, partial
from pathlib import Path

import msgspec
import nbformat
import pytest
import torch

from grader.course import courses
from handout.site import agreement, chapter_notebooks
from tests.grader.sampling import every
from tests.handout.page_figures import CHAPTERS, CODE, reference_as_assignment

COURSE = courses.load()
LEFT_OVER = re.compile(
    r"\{[a-z:]+\}|:::|^>? *:\w+:|^\([\w-]+\)=|\]\{#|\]\((?!https?://)|`{3,}\w*\{", re.MULTILINE
)


@cache
def written():
    return chapter_notebooks.written(COURSE)


def cells(name, kind):
    found = [cell for cell in json.loads(written()[name])["cells"] if cell["cell_type"] == kind]
    return [{**cell, "source": "".join(cell["source"])} for cell in found]


def shown(source, names):
    """What a notebook shows below a cell: what is printed, and the value of the last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
        if value is not None:
            print(repr(value))
    return printed.getvalue()


def test_each_chapter_has_a_valid_notebook():
    """The format's own schema accepts each one; ids of cells are unique and never change."""
    assert list(written()) == CHAPTERS
    for name in CHAPTERS:
        notebook = nbformat.reads(written()[name], as_version=4)
        nbformat.validate(notebook)
        assert [cell.id for cell in notebook.cells] == [
            f"{name}-{number}" for number in range(len(notebook.cells))
        ]


@pytest.mark.parametrize("name", every(3, CHAPTERS))
def test_a_notebook_runs_from_top_to_bottom(name, monkeypatch):
    """With the reference, each cell shows its stored output, which is what the page shows."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    setup, *rest, asks = cells(name, "code")
    names = {"__name__": "__main__"}
    with reference_as_assignment(), torch.random.fork_rng():
        assert shown(setup["source"], names).startswith("Your code is in ")
        for cell in rest:
            expected = "".join(line for output in cell["outputs"] for line in output["text"])
            assert shown(cell["source"], names).split() == expected.split(), cell["id"]
            assert "raises-exception" in cell["metadata"]["tags"]
    with monkeypatch.context() as patch:
        patch.setattr("flight.bets.main", lambda root, words: print(root.name and words))
        assert shown(asks["source"], names) == f"['{int(name[:2])}']\n"


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_notebook_tells_everything_in_plain_markdown(name):
    page = agreement.pages()[f"{name}.md"]
    told = "\n\n".join(cell["source"] for cell in cells(name, "markdown"))
    assert LEFT_OVER.findall(re.sub(r"`[^`\n]+`|\$+[^$]+\$+", "", told)) == []
    assert [line for line in told.split("\n") if line.startswith("#")] == re.findall(
        r"^#.*", page, re.MULTILINE
    )
    for title in re.findall(r"\{admonition\} (.*)", page):
        assert f"> **{title}**\n>\n> " in told
    for name_of, argument in re.findall(r"\{(picture|calculator|quiz)\} (.*)", page):
        assert f"*{name_of.capitalize()}" in told, argument
    assert told.count("<details>") == told.count("</details>") >= page.count("{answer}") - 1
    parsed = map(
        chapter_notebooks.DocTestParser().get_examples,
        [block["code"] for block in CODE.finditer(page)],
    )
    wanted = [example for examples in parsed for example in examples if example.want]
    assert len(wanted) == sum(len(cell["outputs"]) for cell in cells(name, "code"))


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder without code, where the setup cell may change what it likes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with torch.random.fork_rng():
        yield tmp_path


def zipped_at(path, folder):
    """A zip file with code in a folder; return what the setup cell says when it has found it."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{folder}/assignment/__init__.py", "")
    return f"Your code is in {Path.cwd() / 'student' / folder / 'assignment'}.\n"


def test_code_is_found_in_a_zip_file_and_its_lack_is_one_sentence(elsewhere):
    """The first cell looks around the notebook, and unpacks what was uploaded beside it."""
    setup = cells(CHAPTERS[0], "code")[0]["source"]
    assert shown(setup, {}).startswith("Your code is not here: zip your folder")
    (elsewhere / "broken.zip").write_bytes(b"PK")
    expected = zipped_at(elsewhere / "mine.zip", "mine")
    assert shown(setup, {}) == expected
    assert sys.path[0] == str(elsewhere / "student" / "mine")


def test_one_click_fetches_the_bundle(elsewhere):
    """With the course's address no upload is needed, and what cannot be fetched is one sentence."""
    published = elsewhere / "published" / "bundle.zip"
    setup = chapter_notebooks.SETUP.format(packages="{}", bundle=repr(published.as_uri()))
    assert "bundle.zip cannot be fetched" in shown(setup, {})
    published.parent.mkdir()
    expected = zipped_at(published, "course-main")
    assert shown(setup, {}) == expected
    assert Path.cwd() == elsewhere / "student" / "course-main"
    assert shown(setup, {}) == expected
    of = partial(msgspec.structs.replace, COURSE)
    on_github = of(bundle_url="https://github.com/ada/course/archive/refs/heads/main.zip")
    path = "/github/ada/course/blob/main/handout/site/notebooks/01_x.ipynb"
    assert chapter_notebooks.in_colab(on_github, "01_x").endswith(path)
    other = of(bundle_url="https://course.example/student.zip")
    assert chapter_notebooks.in_colab(other, "01_x") == ""
    setup = json.loads(chapter_notebooks.written(on_github)[CHAPTERS[0]])["cells"][1]["source"]
    assert f'"{on_github.bundle_url}"' in "".join(setup)


def test_a_directive_without_a_translation_is_refused():
    with pytest.raises(ValueError, match="got 'video'"):
        list(chapter_notebooks._parts(["```{video} name", "```"], "section 1.1"))


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_each_chapter_links_its_notebook(site):
    for page in site.glob("*.html"):
        links = re.findall(r'href="notebooks/(\w+)\.ipynb" download', page.read_text("utf-8"))
        assert links == [page.stem] * (page.stem in CHAPTERS), page.name
    files = {path.stem: path.read_text("utf-8") for path in site.glob("notebooks/*")}
    assert files == written()
