"""Grading: hidden tests run in this process, the student's code runs in the sandbox."""
