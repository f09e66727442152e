"""Hidden tests: one file per problem, test_<id>.py.

They run in the grader's process and reach the student's code only through the `student` fixture.
The first paragraph of a test's docstring is the rule that the report shows if the test fails.
"""
