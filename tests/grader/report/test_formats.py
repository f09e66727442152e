"""All formats render the same record by functions of one signature."""

import inspect

import pytest

from grader.commands.classes import SUFFIXES
from grader.report.formats import RENDER
from grader.report.reported import Reported
from tests.grader.report.samples import every_status


@pytest.mark.parametrize("name", RENDER)
def test_every_format_renders_a_record(name):
    """A report needs no other argument, and names each problem."""
    assert 1 == len(inspect.signature(RENDER[name]).parameters)
    text = RENDER[name](Reported(every_status()))
    assert all(problem in text for problem in ("linear", "adamw", "gpu"))


def test_every_report_of_a_class_has_a_format():
    assert SUFFIXES.keys() <= RENDER.keys()


def test_the_reasons_are_computed_once():
    """A class has hundreds of reports, and each shows the reasons several times."""
    one = Reported(every_status())
    assert one.reasons is one.reasons
