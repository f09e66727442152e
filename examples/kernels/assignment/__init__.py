"""Two kernels."""
