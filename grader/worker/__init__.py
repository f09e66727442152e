"""The untrusted side: what runs inside the sandbox. It decides nothing about a score."""
