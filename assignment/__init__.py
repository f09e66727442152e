"""PyTorch primitives and resource accounting: one module per chapter of the handout."""
