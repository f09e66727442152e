"""What each page of the handout claims: a module a page (`c05_resource_accounting` for `05_resource_accounting.md`)."""
