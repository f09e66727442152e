"""Names in the text lead to stubs, of which the page shows the signature and the docstring."""

import ast
import html
import re

import pytest

from grader.course import courses
from handout.site import agreement, stubs

COURSE = courses.load()


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_every_name_of_a_problem_leads_to_its_stub(site):
    """The problem's box links each name, and its place shows the docstring of assignment/."""
    page, sources = (site / "stubs.html").read_text(encoding="utf-8"), agreement.stubs(COURSE)
    for number, module in enumerate(COURSE.modules, 1):
        chapter = (site / f"{number:02}_{module}.html").read_text(encoding="utf-8")
        tree = {getattr(node, "name", None): node for node in ast.parse(sources[module]).body}
        for name in [n for p in COURSE.problems if p.module == module for n in p.functions]:
            assert f'href="stubs.html#stub-{name}"' in chapter, name
            _, found, shown = page.partition(f'<section class="stub" id="stub-{name}">')
            text = html.unescape(re.sub("<[^>]+>", "", shown.partition("</section>")[0]))
            assert found, name
            assert ast.get_source_segment(sources[module], tree[name].body[0]) in text, name
    assert "TODO" not in page
    assert "NotImplementedError(" not in page


def test_no_body_is_shown():
    """Whatever a module contains, only signatures and docstrings of its definitions are shown."""
    source = '''
@given
def area(
    width: float,
) -> float:
    """The area."""
    secret = width
    return secret


class Square:
    """A square."""

    secret = 2

    def side(self) -> int:
        # A secret.
        return self.secret

    def area(self) -> int:
        """Its area."""

        def secret(): ...
'''
    assert stubs.stub(source, "area").splitlines() == [
        "@given",
        "def area(",
        "    width: float,",
        ") -> float:",
        '    """The area."""',
    ]
    assert stubs.stub(source, "Square").splitlines() == [
        "class Square:",
        '    """A square."""',
        "",
        "    def side(self) -> int:",
        "",
        "    def area(self) -> int:",
        '        """Its area."""',
    ]


def test_a_common_word_is_a_link_only_in_its_own_chapter():
    """The problem `checkpoint` of one chapter is not the function `checkpoint` of another."""
    assert "checkpoint" in stubs.linked(COURSE, "12_activation_checkpointing")
    assert "checkpoint" not in stubs.linked(COURSE, "10_checkpointing")
    assert "tensor_bytes" in stubs.linked(COURSE, "10_checkpointing") & stubs.linked(
        COURSE, "index"
    )
