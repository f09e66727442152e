"""Stubs for students, generated from the solutions, and bundles that are checked for secrets."""
