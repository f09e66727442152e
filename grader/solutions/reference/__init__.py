"""Solutions. grader/publish/stub_files.py makes assignment/'s stubs from these files."""
