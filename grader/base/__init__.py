"""What every other folder may use: whose fault an error is, files, interrupts, and safe text."""
