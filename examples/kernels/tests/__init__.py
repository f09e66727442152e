"""Public tests and probes, which students have; hidden tests."""
