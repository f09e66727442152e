"""The programs that submissions may start."""
