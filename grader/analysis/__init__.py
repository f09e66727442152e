"""Analysis of a whole class's results: the class, the problems and the tests."""
