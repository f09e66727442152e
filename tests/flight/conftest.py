"""The tests of the flight share the warm Python, and its settings, with those of the grader."""

from tests.grader.conftest import pytest_configure, pytest_configure_node  # noqa: F401  hooks
