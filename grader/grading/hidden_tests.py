"""Collect hidden tests with pytest; again only if the files or the course change.

Collecting takes a third of the time that a warm process needs to grade one problem. pytest.main
would collect them for every submission, so this module drives pytest's session itself, as
pytest-xdist does in its workers.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import pytest
from _pytest.config import _prepareconfig

from grader.base.errors import GraderFault
from grader.course.courses import Course

# Slow pytest plugins that a grade does not need, and two that would change this process for good.
OF_NO_USE = (
    *("terminal", "cacheprovider", "logging", "unraisableexception", "threadexception"),
    *("doctest", "junitxml", "legacypath", "pastebin", "setuponly", "setupplan", "stepwise"),
    *("debugging", "faulthandler"),
)

# Where pytest keeps the last exception of a test for debuggers, and with it what the frames held.
KEPT_BY_PYTEST = ("last_exc", "last_type", "last_value", "last_traceback")


class Runs(Protocol):
    """A pytest plugin with hooks for running tests."""

    is_enough: bool  # whether no further test needs to run


class HiddenTests:
    """The collected tests of some files.

    Raises:
        GraderFault: pytest cannot start with this course.
    """

    def __init__(self, root: Path, files: list[str]) -> None:
        # For each file that cannot be read, its name and the reason.
        self.unreadable: list[tuple[str, str]] = []
        with _faults("pytest cannot start with this course"):
            self._config = _prepareconfig(_words(root, files), [self])
            # Nobody reads tracebacks here, and they take longer than most tests.
            self._config.option.tbstyle = "no"
            try:
                self._config._do_configure()
                self._session = pytest.Session.from_config(self._config)
                self._config.hook.pytest_sessionstart(session=self._session)
                self._config.hook.pytest_collection(session=self._session)
            except BaseException:
                self._config._ensure_unconfigure()
                raise
        # The tests, in the order in which they run.
        self.items: list[pytest.Item] = self._session.items

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a test file that cannot be read; pytest calls this."""
        if report.failed:
            reason = (report.longreprtext.strip().splitlines() or [""])[-1]
            self.unreadable.append((report.nodeid, reason))

    def run(self, items: list[pytest.Item], plugin: Runs, seed: int) -> None:
        """Run some of the tests.

        Args:
            plugin: Gives each test its student, and records how the test ends. It is empty
                afterwards, because pytest never forgets a plugin.
            seed: The seed of the tests' inputs. It cannot affect which tests are collected.

        Raises:
            GraderFault: pytest stopped before all tests were done.
        """
        self._config.option.seed = seed
        self._config.pluginmanager.register(plugin)
        is_whole = False
        try:
            with _faults("pytest stopped before the tests were done"):
                try:
                    for item, following in pairwise([*items, None]):
                        assert item is not None
                        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                        if plugin.is_enough:
                            break
                finally:
                    # If the tests stopped early, the set-up of the last one is still there.
                    self._session._setupstate.teardown_exact(None)
            is_whole = True
        finally:
            self._config.pluginmanager.unregister(plugin)
            vars(plugin).clear()
            for name in KEPT_BY_PYTEST:
                vars(sys).pop(name, None)
            os.chdir(self._session.startpath)
            if not is_whole:  # a test that was interrupted may not be able to run again
                forget()

    def close(self) -> None:
        """Undo what pytest has set up."""
        self._config.hook.pytest_sessionfinish(session=self._session, exitstatus=0)
        self._config._ensure_unconfigure()


def _words(root: Path, files: list[str]) -> list[str]:
    """The command line of pytest.

    The environment of the person who runs the grader must not affect a grade.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-c", os.devnull, "--rootdir", str(root), "--import-mode=importlib"]
    # pytest would run a conftest.py of any folder above, and list all that these folders hold.
    options += ["--confcutdir", str(root)]
    options += ["--continue-on-collection-errors", "--assert=plain", "-s", "-p", "kit.fixtures"]
    options += [word for plugin in OF_NO_USE for word in ("-p", f"no:{plugin}")]
    return [*options, *files]


_collected: tuple[object, HiddenTests] | None = None


def collected(course: Course, files: list[str], suite_sha256: str) -> HiddenTests:
    """The hidden tests in these files, which are those of the last grade if nothing has changed.

    Raises:
        GraderFault: pytest cannot start with this course.
    """
    global _collected
    key = (course.root, tuple(files), suite_sha256)
    if _collected is None or _collected[0] != key:
        forget()
        _collected = key, HiddenTests(course.root, files)
    return _collected[1]


def forget() -> None:
    """Have the next grade collect its tests."""
    global _collected
    last, _collected = _collected, None
    if last is not None:
        last[1].close()


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """Turn an exception with which pytest stops into a fault of the grader."""
    try:
        yield
    except GraderFault:
        raise
    except (Exception, SystemExit) as e:
        raise GraderFault(f"{what}: {type(e).__name__}: {e}") from e
