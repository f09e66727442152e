"""What only the staff has: reference solutions, known mistakes and variants, and their loaders."""
