"""Functions that run in the student's process; `kit.student` has those that call any function."""
