"""A drafter's shape, and its `config.json` as vLLM's `method: dflash` reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from dcoco_bench.drafting.layout import Layout
from dcoco_bench.errors import UserError

OURS = "dcoco_bench"  # our own top-level key; vLLM's dflash speculator refuses a layout flag inside dflash_config


class DraftConfig(BaseModel):
    """Qwen3-style decoder over two key/value sources (methods.md 1.1). Sizes usually copy the target's."""

    model_config = ConfigDict(frozen=True)

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    attention_bias: bool = False
    max_position_embeddings: int
    vocab_size: int
    draft_vocab_size: int | None = None  # None = the full vocabulary
    block_size: int  # Q, the block's inputs
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int
    layout: Layout
    method: str = "dflash"

    @property
    def slots(self) -> int:
        return self.layout.slots(self.block_size)

    @model_validator(mode="after")
    def _fits_itself(self) -> DraftConfig:
        if self.block_size < 2:
            raise ValueError(f"block_size {self.block_size} leaves nothing to draft; it must be at least 2")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"{self.num_attention_heads} heads do not divide among {self.num_key_value_heads} kv heads"
            )
        if not 0 <= self.mask_token_id < self.vocab_size:
            raise ValueError(f"mask_token_id {self.mask_token_id} is not in the vocabulary of {self.vocab_size}")
        if any(not 0 <= tap < self.num_target_layers - 1 for tap in self.target_layer_ids):
            raise ValueError(
                f"target_layer_ids {list(self.target_layer_ids)} must lie in 0..{self.num_target_layers - 2}"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """The file vLLM loads; draft-only keys nested in `dflash_config` (0.27 reads the mask id only there)."""
        plain = self.model_dump(
            mode="json",
            exclude={"mask_token_id", "target_layer_ids", "layout", "method", "draft_vocab_size", "rope_theta"},
        )
        return {
            "architectures": ["DFlashDraftModel"],
            "model_type": "qwen3",
            **plain,
            **({"draft_vocab_size": self.draft_vocab_size} if self.draft_vocab_size else {}),
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_theta": self.rope_theta, "rope_type": "default"},
            "hidden_act": "silu",
            "layer_types": ["full_attention"] * self.num_hidden_layers,
            "sliding_window": None,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
            "dtype": "bfloat16",
            "dflash_config": {"mask_token_id": self.mask_token_id, "target_layer_ids": list(self.target_layer_ids)},
            OURS: {"layout": self.layout.value, "method": self.method},
        }

    def write(self, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path, layout: Layout | None = None) -> DraftConfig:
        """Our own or a public DFlash `config.json`. `layout` stands in for a flag that the file lacks.

        Raises UserError where the file is missing, unreadable, or says nothing about the layout.
        """
        path = folder / "config.json"
        try:
            raw = json.loads(path.read_text())
        except FileNotFoundError:
            raise UserError(f"draft checkpoint {folder} has no config.json; give the folder that holds it") from None
        except ValueError as error:
            raise UserError(f"{path} is not JSON ({error}); fetch the checkpoint again") from None
        if not isinstance(raw, dict):
            raise UserError(f"{path} is not a JSON object; fetch the checkpoint again")
        return cls.from_keys(lift(raw), path, layout)

    @classmethod
    def from_keys(cls, keys: dict[str, Any], path: Path, layout: Layout | None = None) -> DraftConfig:
        """From `lift`ed keys; `path` is named in errors."""
        declared = _declared_layout(keys)
        if declared and layout and declared is not layout:
            raise UserError(
                f"{path} declares layout {declared.value!r} but {layout.value!r} was asked for; drop layout="
            )
        layout = declared or layout
        if layout is None:
            raise UserError(
                f"{path} has no layout flag (dcoco_bench.layout, sample_from_anchor or shift_label), and a wrong guess "
                "accepts about 1 %; say layout=fill-in (z-lab DFlash) or layout=anchor-first (DeepSpec, Domino)"
            )
        if beyond := unsupported(keys):
            raise UserError(f"{path}: {beyond} is not supported here, and leaving it out would draft worse in silence")
        merged = {**keys, "layout": layout, "method": _part(keys, OURS).get("method", "dflash")}
        merged["rope_theta"] = _part(keys, "rope_parameters").get("rope_theta", keys.get("rope_theta", 10_000.0))
        try:
            merged.setdefault("num_target_layers", 1 + max(merged.get("target_layer_ids", [0]), default=0) + 1)
            merged.setdefault("head_dim", merged["hidden_size"] // merged["num_attention_heads"])
        except (TypeError, KeyError, ZeroDivisionError):
            pass  # what they are derived from is missing or no number, which validation says by name
        try:
            return cls.model_validate(merged)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the whole"
            raise UserError(f"{path}: {field}: {first['msg']}; the checkpoint is not a usable DFlash draft") from None


def lift(raw: dict[str, Any]) -> dict[str, Any]:
    """One flat set of keys from a published config.json: those of `dflash_config` (z-lab, SpecForge) and of
    `transformer_layer_config` (speculators) come to the top. Top-level keys win.

    speculators numbers tapped layers by Hugging Face's `hidden_states`, one above the layer (methods.md trap 2).
    """
    keys = {**_part(raw, "transformer_layer_config"), **_part(raw, "dflash_config"), **raw}
    ids = raw.get("aux_hidden_state_layer_ids")
    if "speculators_model_type" in raw and isinstance(ids, list) and all(isinstance(i, int) for i in ids):
        keys.setdefault("target_layer_ids", [i - 1 for i in ids])
    return keys


def _part(keys: dict[str, Any], name: str) -> dict[str, Any]:
    """A nested object; {} where there is none."""
    part = keys.get(name)
    return part if isinstance(part, dict) else {}


def unsupported(keys: dict[str, Any]) -> str | None:
    """The first published option that changes what a draft computes and that the backbone here does not have."""
    rope = {**_part(keys, "rope_scaling"), **_part(keys, "rope_parameters")}
    kind = rope.get("rope_type", rope.get("type", "default"))
    hidden = keys.get("hidden_size")
    cases = {
        f"rope_type {kind!r}": kind not in (None, "default"),
        "a sliding-window layer (layer_types)": "sliding_attention" in (keys.get("layer_types") or ()),
        "is_neox_style false": keys.get("is_neox_style") is False,
        f"target_hidden_size {keys.get('target_hidden_size')}": keys.get("target_hidden_size") not in (None, hidden),
        "causal attention in the block": keys.get("causal") is True or keys.get("is_causal") is True,
        **{
            f"{name} {keys.get(name)}": keys.get(name) not in (None, 1, 1.0)
            for name in ("logit_scale", "output_multiplier", "input_embedding_scale")
        },
        "final_logit_softcapping": bool(keys.get("final_logit_softcapping")),
    }
    return next((text for text, applies in cases.items() if applies), None)


def _declared_layout(keys: dict[str, Any]) -> Layout | None:
    if said := _part(keys, OURS).get("layout"):
        try:
            return Layout(said)
        except ValueError:
            raise UserError(
                f"layout {said!r} in a draft's config.json is unknown; write fill-in or anchor-first"
            ) from None
    for flag in ("sample_from_anchor", "shift_label"):
        if isinstance(keys.get(flag), bool):
            return Layout.ANCHOR_FIRST if keys[flag] else Layout.FILL_IN
    return None
