"""Results of a run: how points add up, and how two runs of one submission are merged."""
