"""The vLLM engine: a server that this tool starts (or attaches to) and drives as a client would."""

from dcoco_bench.engines.vllm.opening import open_engine

__all__ = ["open_engine"]
