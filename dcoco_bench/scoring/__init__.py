"""Accuracy beside speed: answers of a finished run, held against the suites' reference answers."""
