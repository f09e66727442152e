"""What only the staff has: reference solutions, known mistakes, right solutions in other styles, and how they are read."""
