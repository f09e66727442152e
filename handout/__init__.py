"""The handout: one Markdown chapter per module of assignment/, and the builder in site/."""
