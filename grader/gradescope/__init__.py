"""A run inside Gradescope's container, or any other that gives a submission and wants a file."""
