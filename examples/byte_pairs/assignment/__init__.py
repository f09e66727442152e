"""A tiny course."""
