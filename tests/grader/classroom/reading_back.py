"""The exported table of a class, read back."""

import csv
import io

from grader.classroom import tables


def read_csv_table(text):
    """The cells of each row, by the name of their column, without the apostrophes of formulas."""
    header, *others = csv.reader(io.StringIO(text, newline=""), strict=True)
    return [dict(zip(map(original, header), map(original, row), strict=True)) for row in others]


def original(cell):
    """A cell's text without the apostrophes that keep a spreadsheet from running it."""
    parts = cell.split(";")
    return ";".join(p[1:] if p.startswith("'") and tables._is_formula(p) else p for p in parts)
