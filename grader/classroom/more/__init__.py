"""Clusters that can each be removed by deleting its file; `CLUSTER` says what it is."""
