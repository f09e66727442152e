"""Probes and public tests, which students have; hidden tests and tests of the grader."""
