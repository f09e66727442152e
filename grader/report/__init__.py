"""Reports: pure functions from a SubmissionResult to text, one module per format."""
