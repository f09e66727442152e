"""`grader validate`: the suite's own proof."""
