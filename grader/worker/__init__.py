"""The untrusted side: the code that runs inside the sandbox. It decides nothing about a score."""
