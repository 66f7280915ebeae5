"""The embedded engine, on any machine with torch."""

from dcoco_bench.engines.torch.opening import open_engine

__all__ = ["open_engine"]
