"""Draft checkpoints on disk, in vLLM's `method: dflash` form.

config.json                the shape, the layout flag (DraftConfig)
model.safetensors          the backbone, bfloat16; `d2t` where the vocabulary is pruned
lm_head.safetensors        the pruned LM head's rows. Derivable from the target, so it may be left out of a
                           repository; vLLM reads it because its weight glob takes every *.safetensors
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from dcoco_bench.drafting.backbone import BlockBackbone
from dcoco_bench.drafting.config import DraftConfig
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.errors import UserError

WEIGHTS, HEAD = "model.safetensors", "lm_head.safetensors"
IGNORED = {"t2d", "rotary_emb.inv_freq"}  # vLLM ignores them too


def save(folder: Path, backbone: BlockBackbone, vocabulary: Vocabulary, target_head: Tensor | None = None) -> None:
    """Write a checkpoint folder; with `target_head` [V, d] also the pruned head that vLLM needs."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: t.to(torch.bfloat16).contiguous() for name, t in backbone.state_dict().items()}
    config = backbone.config
    if vocabulary.pruned:
        tensors["d2t"] = vocabulary.offsets
        config = config.model_copy(update={"draft_vocab_size": len(vocabulary)})
        if target_head is not None:
            save_file({"lm_head.weight": target_head[vocabulary.kept].to(torch.bfloat16).contiguous()}, folder / HEAD)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config.write(folder)


def load(folder: Path, layout: Layout | None = None) -> tuple[BlockBackbone, Vocabulary]:
    """Read a checkpoint of ours or of the public DFlash form, in float32.

    Tensors of a head (other names) are left to the method. Raises UserError listing what is missing or misshapen.
    """
    config = DraftConfig.read(folder, layout)
    tensors = read_tensors(folder)
    backbone = BlockBackbone(config)
    wanted = backbone.state_dict()
    missing = sorted(set(wanted) - set(tensors))
    misfits = [
        f"{name} is {list(tensors[name].shape)}, config.json makes it {list(wanted[name].shape)}"
        for name in sorted(set(wanted) & set(tensors))
        if tensors[name].shape != wanted[name].shape
    ]
    if missing or misfits:
        problems = [*(f"{name} is missing" for name in missing), *misfits]
        more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        raise UserError(
            f"draft checkpoint {folder}: {'; '.join(problems[:4])}{more}; the weights are not of this config"
        )
    backbone.load_state_dict({name: tensors[name].float() for name in wanted})
    return backbone.eval(), vocabulary_of(folder, config, tensors)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's *.safetensors (subfolders hold heads and are not read)."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(f"draft checkpoint {folder} has no .safetensors file; other weight formats are not loaded")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is not readable ({error}); fetch the checkpoint again") from None
    return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}


def read_vocabulary(folder: Path, config: DraftConfig) -> Vocabulary:
    """Without reading the weights."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as stored:
            if "d2t" in stored.keys():  # noqa: SIM118  (a safetensors handle is not a mapping)
                return vocabulary_of(folder, config, {"d2t": stored.get_tensor("d2t")})
    return vocabulary_of(folder, config, {})


def vocabulary_of(folder: Path, config: DraftConfig, tensors: dict[str, Tensor]) -> Vocabulary:
    """The draft vocabulary of a folder's tensors. Raises UserError where `d2t` and config.json disagree."""
    offsets = tensors.get("d2t")
    if offsets is None:
        if config.draft_vocab_size not in (None, config.vocab_size):
            raise UserError(f"draft checkpoint {folder}: draft_vocab_size {config.draft_vocab_size} but no d2t tensor")
        return Vocabulary.full(config.vocab_size)
    kept = torch.arange(len(offsets)) + offsets
    if len(offsets) != config.draft_vocab_size or int(kept.min()) < 0 or int(kept.max()) >= config.vocab_size:
        raise UserError(
            f"draft checkpoint {folder}: d2t has {len(offsets)} entries up to id {int(kept.max())}, config.json says "
            f"draft_vocab_size {config.draft_vocab_size} of {config.vocab_size}"
        )
    return Vocabulary.from_offsets(offsets, config.vocab_size)


def check_fits(folder: Path, config: DraftConfig, *, hidden_size: int, vocab_size: int, layers: int) -> None:
    """Raises UserError naming both shapes when a draft was made for another target."""
    pairs = [
        ("hidden_size", config.hidden_size, hidden_size),
        ("vocab_size", config.vocab_size, vocab_size),
        ("num_target_layers", config.num_target_layers, layers),
    ]
    wrong = [f"{name} {mine} (target: {theirs})" for name, mine, theirs in pairs if mine != theirs]
    if wrong:
        raise UserError(f"draft checkpoint {folder} does not fit the target: {', '.join(wrong)}; use one made for it")
