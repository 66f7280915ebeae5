"""Figures from the log: matplotlib, in print and for colour-blind readers, each with its data as CSV."""
