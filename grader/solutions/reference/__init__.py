"""Solutions. The stubs in assignment/ are made from these files: see grader/publish/stubs.py."""
