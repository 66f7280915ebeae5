"""`export`: a checkpoint folder that stock vLLM loads, with the pruned LM head that a repository may leave out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import save_file

from dcoco_bench.backbone import Backbone
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.config import OURS, DraftConfig
from dcoco_bench.engines.vllm.plugin import ARCHITECTURE
from dcoco_bench.errors import UserError


def export_for_vllm(source: Path, out: Path, backbone: Backbone, plugin_spec: str | None = None) -> None:
    """Write `out`, all or nothing: weights and config as vLLM's `method: dflash` reads them, heads in their subfolders.

    With `plugin_spec` (`dcoco@k=8`) the config names our plug-in's architecture, and what it is to choose by. Stock
    vLLM then refuses the folder instead of drafting as plain DFlash. Raises UserError for another target's draft.
    """
    from dcoco_bench.training.setup import read_tables

    config = DraftConfig.read(source)
    vocabulary = checkpoint.vocabulary_of(source, config, checkpoint.read_tensors(source))
    partial = out.with_name(f"{out.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(source, partial, ignore=shutil.ignore_patterns("*.jsonl", "README.md", "*.pt"))
    if vocabulary.pruned and not (partial / checkpoint.HEAD).exists():
        head = read_tables(backbone.folder()).head
        if len(head) != config.vocab_size:
            raise UserError(
                f"draft checkpoint {source} does not fit {backbone.label}: vocab_size {config.vocab_size} "
                f"(target: {len(head)}); use one made for it"
            )
        rows = head[vocabulary.kept].contiguous()  # in the target's own precision, as the torch engine reads them
        save_file({"lm_head.weight": rows}, partial / checkpoint.HEAD)
    if plugin_spec is not None:
        file = partial / "config.json"
        keys = json.loads(file.read_text())
        keys["architectures"] = [ARCHITECTURE]
        keys[OURS] = {**keys.get(OURS, {}), "layout": config.layout.value, "spec": plugin_spec}
        file.write_text(json.dumps(keys, indent=1) + "\n")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
