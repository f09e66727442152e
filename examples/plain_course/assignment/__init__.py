"""A plain course."""
