"""The fixtures of every test: `student`, `rng`, `device`."""

pytest_plugins = ["kit.fixtures"]
