"""Hidden tests, one file a problem: test_<id>.py. They run in the grader's process and reach the student's code through
the `student` fixture alone. A docstring's first line is the rule that a student is told when the test fails."""
