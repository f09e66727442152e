"""The modules that both sides of the sandbox load."""
