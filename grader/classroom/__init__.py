"""A whole class: its submissions, the gradebook that keeps their results, and the exports."""
