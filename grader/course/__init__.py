"""What a course consists of: its paths and problems, and the rules of its class."""
