"""What a run found out, how points add up, and how two runs of one submission become one."""
