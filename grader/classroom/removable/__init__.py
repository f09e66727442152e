"""One kind of cluster per file: `CLUSTER` describes it, and without the file it is gone."""
