"""The grader: runs hidden tests against a student's code that it never trusts."""

__version__ = "0.4.0"
