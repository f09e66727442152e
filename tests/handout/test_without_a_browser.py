"""On a machine without a browser, every missing test or file is reported.

It is an error only where a browser is required.
"""

import pytest

from handout.site import __main__ as build
from tests.grader.processes import ran
from tests.grader.warm_python import python
from tests.handout.browsing import ROOT

pytestmark = pytest.mark.slow
# The last plugin would collect all garbage of this process at the end.
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:unraisableexception")
ONE_TEST = (f"{ROOT}/tests/handout/test_pdf.py", "-k", "outline", *PLUGINS)


@pytest.fixture(autouse=True)
def without(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "nowhere")
    for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS"):  # of other tests
        monkeypatch.delenv(name, raising=False)


def test_skipped_pages_are_said_at_the_end(capsys):
    assert pytest.main([*ONE_TEST]) == 0
    said = "NOT TESTED: 1 test of the handout's pages, as no Chromium could be started"
    assert said in capsys.readouterr().out


def test_a_flag_makes_it_a_failure(capsys):
    assert pytest.main([*ONE_TEST, "--require-browser"]) == 1
    assert "CHROMIUM names nowhere, which cannot be run" in capsys.readouterr().out


def test_the_missing_pdf_is_said_and_nothing_built_for_it(tmp_path, capsys):
    assert not build._pdf(tmp_path / "handout.pdf", tmp_path)
    said = capsys.readouterr().err
    assert said == "the PDF is not made: CHROMIUM names nowhere, which cannot be run\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proof
def test_the_site_is_built_and_the_missing_pdf_is_said(tmp_path):
    done = ran([python(), "-m", "handout.site", "--out", tmp_path], cwd=ROOT)
    assert done.returncode == 1
    assert (tmp_path / "site" / "index.html").is_file()
    told = "the PDF is not made: CHROMIUM names nowhere, which cannot be run\n"
    assert done.stderr.endswith(told)


def test_a_folder_that_is_no_built_handout_is_not_replaced(tmp_path, capsys):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.html").write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        build.main(["--out", str(tmp_path)])
    said = "is not a built handout and would be replaced: choose another folder"
    assert said in capsys.readouterr().err
    assert (tmp_path / "site" / "mine.html").read_text() == "mine"
