"""What the results of a whole class say about the class, the problems and the tests."""
