"""The figures of each page of the handout: a module a page (`c05_resource_accounting` for `05_resource_accounting.md`)."""
