"""The handout: a chapter a module of assignment/, in Markdown, and what makes a site and a PDF of it (site/)."""
