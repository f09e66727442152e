"""Grade inside Gradescope's container, or any container with the same input and output files."""
