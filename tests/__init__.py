"""The tests: probes and public tests that students have, hidden tests that they do not, and tests of the grader."""
