"""What students get from the solutions: stubs, and bundles that are checked for secrets."""
