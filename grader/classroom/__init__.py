"""A whole class: what it handed in, the gradebook that keeps its results, and the exports."""
