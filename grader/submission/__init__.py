"""A submission as sources in memory, read from a folder or an archive."""
