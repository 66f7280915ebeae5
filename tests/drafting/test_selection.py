"""What our plug-in runs inside vLLM: a method's choice without its backbone, from the same code as the torch engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dcoco_bench.cells import Sampling
from dcoco_bench.drafting import checkpoint
from dcoco_bench.drafting.block_method import BlockMethod
from dcoco_bench.drafting.export import export_for_vllm
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.vocabulary import Vocabulary
from dcoco_bench.engines.torch.target import Target
from dcoco_bench.engines.vllm.plugin import ARCHITECTURE
from dcoco_bench.errors import UserError
from dcoco_bench.method import MethodSpec
from dcoco_bench.methods.dcoco.head import Corrector, CorrectorConfig
from dcoco_bench.methods.dcoco.options import TrainingOptions
from dcoco_bench.methods.dcoco.store import save_corrector
from dcoco_bench.registry import Registry, get_method
from tests.methods import cases, test_dflash2, test_domino, test_dspark
from tests.tiny import HIDDEN, VOCAB, backbone, target_model


def dflash(folder: Path, vocabulary: Vocabulary, layout: Layout) -> Path:
    checkpoint.save(folder, backbone(layout), vocabulary)
    return folder


def dcoco(folder: Path, vocabulary: Vocabulary, layout: Layout) -> Path:
    head = Corrector(CorrectorConfig(HIDDEN, 16, 24), torch.Generator().manual_seed(2))
    head.mlp_out.weight.data.normal_(generator=torch.Generator().manual_seed(3))
    save_corrector(dflash(folder, vocabulary, layout) / "corrector", head, 6, TrainingOptions())
    return folder


WRITERS: dict[str, Callable[[Path, Vocabulary, Layout], Path]] = {
    "dflash": dflash,
    "dcoco": dcoco,
    "domino": test_domino.write,
    "dspark": test_dspark.write,
    "dflash2": test_dflash2.write,
}


def method_of(name: str) -> BlockMethod:
    found = get_method(name)
    assert isinstance(found, BlockMethod)
    return found


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("kept", [cases.KEPT, torch.arange(VOCAB)], ids=["pruned", "full"])
@pytest.mark.parametrize("name", WRITERS)
def test_the_choice_is_the_torch_engine_s(tmp_path: Path, name: str, kept: torch.Tensor, layout: Layout) -> None:
    method, target = method_of(name), Target(target_model())
    folder = WRITERS[name](tmp_path, Vocabulary(kept, VOCAB), layout)
    params = MethodSpec.parse(f"{name}@n=4").resolve(method.params)
    whole = cases.build(method, folder, target, "n=4")
    tables = SimpleNamespace(embedding=target.embedding, head=target.head[kept])  # as vLLM's modules hold them
    alone = method.selection(folder, tables, params)
    assert alone.backbone.fc.weight.device.type == "meta"
    hidden = torch.randn(9, 4, HIDDEN, generator=torch.Generator().manual_seed(4))
    anchors = torch.arange(9)
    expected = whole.choose(hidden, anchors, Sampling(), []).tokens
    assert torch.equal(alone.choose(hidden, anchors, Sampling(), []).tokens, expected)
    assert alone.config.layout is layout


@pytest.mark.parametrize("text", ["dcoco@k=8,select=global-sum,corrector=off", "dflash@layout=fill-in,n=3", "dspark"])
def test_a_spec_can_be_made_again_from_its_values(text: str) -> None:
    spec = MethodSpec.parse(text)
    known = get_method(spec.name).params
    assert MethodSpec.of(spec.name, spec.resolve(known), known) == spec


def test_an_export_names_what_is_to_choose_and_leaves_the_source_alone(tmp_path: Path, smollm2: Path) -> None:
    from dcoco_bench.backbone import resolve_backbone

    source = Registry().entry("dflash").own_checkpoint("smollm2-135m")
    assert source is not None
    before = (source / "config.json").read_bytes()
    export_for_vllm(source, tmp_path / "plain", resolve_backbone("smollm2-135m"))
    export_for_vllm(source, tmp_path / "plugin", resolve_backbone("smollm2-135m"), "dflash@n=5")
    assert (source / "config.json").read_bytes() == before
    plain, plugin = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("plain", "plugin"))
    assert plain["architectures"] == ["DFlashDraftModel"]
    assert plugin["architectures"] == [ARCHITECTURE]
    assert plugin["dcoco_bench"]["spec"] == "dflash@n=5"
    for name in ("plain", "plugin"):
        head = checkpoint.read_tensors(tmp_path / name)["lm_head.weight"]
        assert head.shape == (plain["draft_vocab_size"], plain["hidden_size"])
        assert not list((tmp_path / name).glob("*.jsonl"))


def test_what_vllm_cannot_serve_is_said_before_a_server_starts(tmp_path: Path) -> None:
    folder = dflash(tmp_path, Vocabulary.full(VOCAB), Layout.ANCHOR_FIRST)
    method = method_of("dflash")

    def draft(text: str) -> int:
        return method.vllm_draft(folder, MethodSpec.parse(text).resolve(method.params)).slots

    assert draft("dflash") == 5  # blocks of 1 + N inputs: one token less than anchor-first could
    with pytest.raises(UserError, match="vLLM drafts 5 tokens of a block of 6"):
        draft("dflash@n=6")
    dspark = method_of("dspark")
    with pytest.raises(UserError, match="a point mass inside vLLM"):
        dspark.vllm_draft(folder, MethodSpec.parse("dspark@draft=sampled").resolve(dspark.params))
    for name in ("lilicorr", "vanilla"):
        other = get_method(name)
        if name == "vanilla":
            assert other.vllm_draft(None, {}) is None
        else:
            with pytest.raises(UserError, match="not served by the vllm engine"):
                other.vllm_draft(folder, {})


@pytest.mark.parametrize("draft", ["argmax", "sampled"])
@pytest.mark.parametrize("name", ["dspark", "domino", "dflash2"])
def test_a_sampled_answer_does_not_depend_on_how_many_decode_beside_it(tmp_path: Path, name: str, draft: str) -> None:
    """Not in its last token either, where a neighbour may still draft and the request itself may not."""
    method, target = method_of(name), Target(target_model())
    folder = WRITERS[name](tmp_path, Vocabulary.full(VOCAB), Layout.FILL_IN)
    for seed in range(4):
        alone, beside = (
            cases.decode(
                cases.build(method, folder, target, f"draft={draft}"), target, c, Sampling(temperature=1.0), seed
            )
            for c in (1, 4)
        )
        assert beside == alone
