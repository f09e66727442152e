"""Says where to run `python -m assignment`, for whoever runs it in this folder."""

import sys
from pathlib import Path

if __name__ == "__main__":
    above = Path(__file__).resolve().parents[1]
    sys.exit(f'`python -m assignment` runs in the folder above this one: first `cd "{above}"`')
