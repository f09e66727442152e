"""One grade: hidden tests in this process, the student's code in the sandbox, and a result of what the tests say."""
