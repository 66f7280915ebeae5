"""A corrector that has learnt nothing changes nothing: inside vLLM, its drafts are plain DFlash's over its backbone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from dcoco_bench.backbone import resolve_backbone
from dcoco_bench.drafting.export import export_for_vllm
from dcoco_bench.engines.vllm.candidates import VARIABLE
from dcoco_bench.registry import Registry
from tests.server.tool import BACKBONE, ENVIRONMENT

# Both drafts in one process, without a server: the recorded drafts are compared, not only what was accepted of them.
OFFLINE = """
import json, os, sys
from vllm import LLM, SamplingParams
model, recorded, *drafts = sys.argv[1:]
answers = []
for draft in drafts:
    os.environ[{variable!r}] = f"{{recorded}}/{{os.path.basename(draft)}}.jsonl"
    llm = LLM(model=model, dtype="float32", max_model_len=128, max_num_seqs=2, enforce_eager=True, seed=0,
              enable_prefix_caching=False, distributed_executor_backend="uni",
              speculative_config={{"method": "dflash", "model": draft, "num_speculative_tokens": 7,
                                  "use_local_argmax_reduction": True}})
    prompts = [{{"prompt_token_ids": [1, 9906, 28, 451 + i, 260, 1789]}} for i in range(3)]
    made = llm.generate(prompts, SamplingParams(max_tokens=20, temperature=0.0))
    answers.append([list(m.outputs[0].token_ids) for m in made])
    del llm
print("ANSWERS " + json.dumps(answers))
"""
IN_PROCESS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def zeroed(out: Path) -> Path:
    """The committed DCOCO draft with the output layer of its corrector as it starts: zero."""
    source = Registry().checkpoint_for("dcoco", BACKBONE)
    assert source is not None
    shutil.copytree(source, out)
    file = out / "corrector" / "model.safetensors"
    tensors = load_file(file)
    last = [name for name in tensors if name.startswith("mlp_out")]
    assert any(tensors[name].any() for name in last)
    save_file({n: torch.zeros_like(t) if n in last else t for n, t in tensors.items()}, file)
    return out


def drafts(file: Path) -> list[list[list[int]]]:
    return [json.loads(line)["tokens"] for line in file.read_text().splitlines()]


def test_a_zero_corrector_drafts_as_plain_dflash(tmp_path: Path) -> None:
    target, draft = resolve_backbone(BACKBONE), zeroed(tmp_path / "zero")
    for spec in ("dcoco", "dflash"):
        export_for_vllm(draft, tmp_path / spec, target, spec)
    words = [str(target.materialise()), str(tmp_path), str(tmp_path / "dcoco"), str(tmp_path / "dflash")]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE.format(variable=VARIABLE), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **ENVIRONMENT, **IN_PROCESS},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [text for text in done.stdout.splitlines() if text.startswith("ANSWERS ")]
    corrected, plain = json.loads(line.removeprefix("ANSWERS "))
    assert corrected == plain
    assert len(drafts(tmp_path / "dflash.jsonl")) > 3
    assert drafts(tmp_path / "dcoco.jsonl") == drafts(tmp_path / "dflash.jsonl")
