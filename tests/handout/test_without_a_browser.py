"""On a machine without a browser, every missing test or file is reported.

It is an error only where a browser is required.
"""

import os
import subprocess

import pytest

from handout.site import __main__ as build
from tests.grader.warm_python import python
from tests.handout.browsing import ROOT

pytestmark = pytest.mark.slow
ONE_TEST = ("pytest", "tests/handout/test_pdf.py", "-k", "outline", "-p", "no:cacheprovider")


def run(*arguments):
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [python(), "-m", *map(str, arguments)]
    without = alone | {"CHROMIUM": "nowhere"}
    return subprocess.run(
        command, cwd=ROOT, env=without, capture_output=True, text=True, timeout=600
    )


def test_skipped_pages_are_said_at_the_end():
    done = run(*ONE_TEST)
    assert done.returncode == 0, done.stdout
    assert (
        "NOT TESTED: 1 test of the handout's pages, as no Chromium could be started" in done.stdout
    )


def test_a_flag_makes_it_a_failure():
    done = run(*ONE_TEST, "--require-browser")
    assert done.returncode == 1
    assert "CHROMIUM names nowhere, which cannot be run" in done.stdout


def test_the_missing_pdf_is_said_and_nothing_built_for_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHROMIUM", "nowhere")
    assert not build._pdf(tmp_path / "handout.pdf", tmp_path)
    said = capsys.readouterr().err
    assert said == "the PDF is not made: CHROMIUM names nowhere, which cannot be run\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proof
def test_the_site_is_built_and_the_missing_pdf_is_said(tmp_path):
    done = run("handout.site", "--out", tmp_path)
    assert done.returncode == 1
    assert (tmp_path / "site" / "index.html").is_file()
    told = "the PDF is not made: CHROMIUM names nowhere, which cannot be run\n"
    assert done.stderr.endswith(told)


def test_a_folder_that_is_no_built_handout_is_not_replaced(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.html").write_text("mine")
    done = run("handout.site", "--out", tmp_path)
    assert done.returncode == 2
    assert "is not a built handout and would be replaced: choose another folder" in done.stderr
    assert (tmp_path / "site" / "mine.html").read_text() == "mine"
