"""What is made of the solutions for students: stubs, and the bundle with the check that nothing secret leaves."""
