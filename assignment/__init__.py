"""PyTorch primitives and resource accounting: one module a chapter of the handout."""
