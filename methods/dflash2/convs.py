"""DFlash2's grouped dynamic causal convolutions around attention and MLP (methods.md 7)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dcoco_bench.drafting.backbone import BlockBackbone, Layer
from dcoco_bench.errors import UserError

TAPS, GROUP = 2, 16  # T and g of the published draft
IN, OUT = 0, 1


class GroupedConv(nn.Module):
    """conv(v)_{i,c} = sum_tau (base_{side,tau,c} + delta_{i,side,tau,group(c)}) v_{i-tau,c}, delta = W_k u.

    Zero outside the block. u is the sublayer's normed input, for both sides. Starts as the identity: base 1 at tap 0,
    W_k zero.
    """

    def __init__(self, width: int, taps: int = TAPS, group: int = GROUP) -> None:
        super().__init__()
        if width % group:
            raise UserError(
                f"dflash2@conv=on: hidden size {width} is no multiple of the convolutions' group of {group}"
            )
        self.taps, self.group = taps, group
        self.base_kernel = nn.Parameter(torch.zeros(2, taps, width))
        self.base_kernel.data[:, 0] = 1.0
        self.kernel_projection = nn.Linear(width, 2 * taps * (width // group), bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def forward(self, u: Tensor, values: Tensor, side: int) -> Tensor:
        """u, values [..., Q, d] of one block each -> [..., Q, d]."""
        delta = self.kernel_projection(u).unflatten(-1, (2, self.taps, -1))[..., side, :, :]
        kernel = self.base_kernel[side] + delta.repeat_interleave(self.group, dim=-1)  # [..., Q, T, d]
        out = kernel[..., 0, :] * values
        for tap in range(1, min(self.taps, values.shape[-2])):
            late = kernel[..., tap:, tap, :] * values[..., :-tap, :]
            out = out + nn.functional.pad(late, (0, 0, tap, 0))
        return out


class ConvolvedNorm(nn.RMSNorm):
    """The norm before attention, then conv_in: block states pass here, context vectors do not.

    The convolution belongs to the layer (published name `attention_conv`); in a tuple it is not registered twice.
    """

    def __init__(self, norm: nn.RMSNorm, conv: GroupedConv) -> None:
        super().__init__(norm.normalized_shape, eps=norm.eps)
        self.weight = norm.weight
        self._conv = (conv,)

    def plain(self, hidden: Tensor) -> Tensor:
        return super().forward(hidden)

    def forward(self, hidden: Tensor) -> Tensor:
        u = self.plain(hidden)
        return self._conv[0](u, u, IN)


class ConvLayer(Layer):
    """Sublayer: u -> conv_in(u) -> attention or MLP -> conv_out -> residual."""

    def __init__(self, layer: Layer, taps: int, group: int) -> None:
        nn.Module.__init__(self)
        width = layer.input_layernorm.normalized_shape[0]
        self.attention_conv, self.mlp_conv = GroupedConv(width, taps, group), GroupedConv(width, taps, group)
        self.input_layernorm = ConvolvedNorm(layer.input_layernorm, self.attention_conv)
        self.self_attn, self.mlp = layer.self_attn, layer.mlp
        self.post_attention_layernorm = layer.post_attention_layernorm

    def finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        norm = self.input_layernorm
        assert isinstance(norm, ConvolvedNorm)
        hidden = hidden + self.attention_conv(norm.plain(hidden), self.self_attn.o_proj(attended), OUT)
        u = self.post_attention_layernorm(hidden)
        return hidden + self.mlp_conv(u, self.mlp(self.mlp_conv(u, u, IN)), OUT)


def add_convs(backbone: BlockBackbone, taps: int = TAPS, group: int = GROUP) -> BlockBackbone:
    """Wrap every layer, in place; what it computes does not change until the convolutions are trained."""
    layers = [layer for layer in backbone.layers if isinstance(layer, Layer)]
    backbone.layers = nn.ModuleList(ConvLayer(layer, taps, group) for layer in layers)
    return backbone


def conv_shape(backbone: BlockBackbone) -> tuple[int, int] | None:
    """(taps, group) of a backbone with convolutions."""
    layer = backbone.layers[0]
    return (layer.attention_conv.taps, layer.attention_conv.group) if isinstance(layer, ConvLayer) else None


def load_convs(backbone: BlockBackbone, tensors: Mapping[str, Tensor]) -> BlockBackbone:
    """Add the convolutions that a checkpoint's tensors hold, if any. Raises UserError listing what does not fit."""
    found = {name: t.float() for name, t in tensors.items() if "_conv." in name}
    if not found:
        return backbone
    base, projection = (
        found.get(f"layers.0.attention_conv.{name}") for name in ("base_kernel", "kernel_projection.weight")
    )
    if base is None or projection is None or base.ndim != 3 or (2 * base.shape[1] * base.shape[2]) % len(projection):
        raise UserError("dflash2: layers.0.attention_conv is missing or misshapen; fetch the checkpoint again")
    add_convs(backbone, base.shape[1], 2 * base.shape[1] * base.shape[2] // len(projection))
    wanted = {name: t for name, t in backbone.state_dict().items() if "_conv." in name}
    wrong = sorted(set(wanted) ^ set(found))
    wrong += [name for name in sorted(set(wanted) & set(found)) if wanted[name].shape != found[name].shape]
    if wrong:
        raise UserError(f"dflash2: convolutions missing, unknown or misshapen: {', '.join(wrong)}; fetch it again")
    backbone.load_state_dict(found, strict=False)
    return backbone.eval()
