"""Our half inside the server: a vLLM general plug-in that registers one draft architecture for all methods.

Every vLLM process loads this module, so it imports neither torch nor vLLM's models.
"""

from __future__ import annotations

ARCHITECTURE = "DFlashDcocoBenchDraftModel"  # names that begin with DFlash are left as they are by vLLM
MODEL = "dcoco_bench.engines.vllm.plugin.model:SelectingDraft"


def register() -> None:
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, MODEL)
