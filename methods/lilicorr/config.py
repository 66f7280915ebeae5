"""The shape of LiLiCorr's head, and its `config.json` under the published keys (methods.md 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dcoco_bench.errors import UserError


@dataclass(frozen=True)
class LiLiCorrConfig:
    """The published head for Qwen3-8B: hidden size, factor dim 1024, 8 heads, K = 8; ours is scaled to its target.

    `lilicorr_logit_scale` and `lilicorr_vector_eps` change scores without changing a shape, so they are stored too.
    """

    hidden_size: int  # d
    block_size: int  # Q
    slots: int  # N
    lilicorr_candidate_topk: int = 16  # K; the head serves any smaller one too
    lilicorr_hidden_size: int = 128
    lilicorr_num_layers: int = 2
    lilicorr_num_heads: int = 4
    lilicorr_mlp_ratio: float = 2.0
    lilicorr_factor_dim: int = 128
    lilicorr_vector_eps: float = 1e-4
    lilicorr_logit_scale: float = 8.0
    rms_norm_eps: float = 1e-6

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> LiLiCorrConfig:
        """Raises UserError naming every field that is missing or not usable."""
        values = {name: raw.get(name) for name in cls.__dataclass_fields__}
        wrong = [
            name
            for name, field in cls.__dataclass_fields__.items()
            if not _usable(values[name], whole=field.type == "int")
        ]
        heads, width = values["lilicorr_num_heads"], values["lilicorr_hidden_size"]
        if not wrong and width % heads:  # type: ignore[operator]
            wrong.append("lilicorr_num_heads")
        if wrong:
            raise UserError(
                f"lilicorr/config.json: {', '.join(wrong)} missing or not usable; fetch the checkpoint again"
            )
        return cls(**values)  # type: ignore[arg-type]


def _usable(value: Any, whole: bool) -> bool:
    return (type(value) is int or (not whole and type(value) is float)) and value > 0
