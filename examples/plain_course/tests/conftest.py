"""The fixtures of every test: `student` and `rng`."""

pytest_plugins = ["kit.fixtures"]
