"""The handout as a site and a PDF: `python -m handout.site` builds both from the Markdown."""
