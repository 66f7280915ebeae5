"""dcoco-bench: which speculative drafter pays?"""

__version__ = "0.1.0"
