"""`grader validate`: prove that the hidden tests can be trusted."""
