"""A fault of vLLM's CPU build (0.27.0 and 0.32.0), mended for our drafts.

The drafter's context keys of all layers are normalised in one call, each layer with its own weights. The CPU kernel
takes the first layer's weights for all of them: no error, hidden states off by about 3 %, and other drafts than the
checkpoint's. vLLM's own `method: dflash` keeps the fault; CUDA's kernel does not have it.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import rms_norm


def mend_context_keys(backbone: Any) -> None:
    """`backbone` is vLLM's DFlash network. Keys on another device go the way they went before."""
    fused = backbone._normalize_context_k

    def by_layer(self: Any, keys: Tensor) -> Tensor:
        """Keys [layers, tokens, kv heads, head_dim], each layer by its own row of weights [layers, head_dim]."""
        if keys.device.type != "cpu":
            return fused(keys)
        layers = zip(keys, self._k_norm_weights, strict=True)
        return torch.stack([rms_norm(k, k.shape[-1:], weight, self._rms_norm_eps) for k, weight in layers])

    backbone._normalize_context_k = MethodType(by_layer, backbone)
