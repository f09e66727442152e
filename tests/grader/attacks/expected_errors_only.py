"""Raises an error that names every argument, whatever it is asked.

group: forge the verdict
target: linear
status: failed
holds: what only ever fails earns nothing.
"""


class Linear:
    def __init__(self, *args, **kwargs):
        raise ValueError(
            "in_features and out_features must be at least 1, and dims has two entries"
        )


MLP = count_parameters = Linear
