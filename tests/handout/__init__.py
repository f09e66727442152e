"""Tests of the handout: its figures, its code, its calculators, the built site and the PDF."""
