"""`convert`: a published checkpoint into ours, and ours into the method's published form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from dcoco_bench.drafting import checkpoint, head_store
from dcoco_bench.drafting.block_method import BlockMethod
from dcoco_bench.drafting.config import OURS, DraftConfig
from dcoco_bench.drafting.layout import Layout
from dcoco_bench.drafting.published import SHARED, HeadForm, Published, PublishedForm, read_published
from dcoco_bench.errors import UserError
from dcoco_bench.registry import Registry

LM_HEAD = "lm_head.weight"


def from_published(source: Path, out: Path, layout: Layout | None, registry: Registry) -> str:
    """Write `out` in our form; returns the method's name. Raises UserError listing every tensor that does not fit."""
    published = read_published(source, layout)
    method, form = _form_of(published, registry)
    vocabulary = checkpoint.vocabulary_of(source, published.config, published.tensors)
    backbone = form.backbone(published)
    wanted = backbone.state_dict()
    own, rest = _split(published.tensors, wanted)
    problems = _misfits(own, wanted)
    head: dict[str, Tensor] = {}
    config: dict[str, Any] = {}
    if isinstance(form, HeadForm):
        config = form.head_config(published, vocabulary)
        head = form.ours({form.strip(name): tensor for name, tensor in rest.items()}, config)
        problems += _misfits(head, form.module(config).state_dict())
    else:
        problems += [f"{name} is unknown" for name in sorted(rest)]
    if problems:
        raise UserError(f"{source} is not a whole {published.architecture}: {'; '.join(problems)}")
    backbone.load_state_dict({name: tensor.float() for name, tensor in own.items()})
    backbone.config = published.config.model_copy(update={"method": method.name})
    checkpoint.save(out, backbone, vocabulary)
    if vocabulary.pruned and LM_HEAD in published.tensors:
        save_file({LM_HEAD: published.tensors[LM_HEAD]}, out / checkpoint.HEAD)
    if isinstance(form, HeadForm):
        head_store.write(out / form.folder, head, config)
    return method.name


def to_published(source: Path, out: Path, registry: Registry) -> str:
    """Write `out` under the published names and keys of its method; returns the architecture's name."""
    config = DraftConfig.read(source)
    method = registry.get_method(config.method)
    form = method.published() if isinstance(method, BlockMethod) else None
    if form is None:
        raise UserError(f"{source}: no published form of {config.method!r} is known; its own folder serves as it is")
    tensors = checkpoint.read_tensors(source)
    keys = config.to_json()
    del keys[OURS]
    keys["architectures"] = [form.architectures[0]]
    nested = keys.pop("dflash_config") | {form.layout_flag: config.layout is Layout.ANCHOR_FIRST}
    if isinstance(form, HeadForm):
        vocabulary = checkpoint.vocabulary_of(source, config, tensors)
        head = load_file(source / form.folder / "model.safetensors")
        nested |= form.keys(head_store.read_head_config(source / form.folder))
        tensors |= {form.prefixes[0] + name: t for name, t in form.theirs(head, vocabulary).items()}
    keys |= {"dflash_config": nested} if form.nested else nested
    out.mkdir(parents=True, exist_ok=True)
    save_file({n: t.contiguous() for n, t in tensors.items()}, out / checkpoint.WEIGHTS, metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(keys, indent=1) + "\n")
    return form.architectures[0]


def _form_of(published: Published, registry: Registry) -> tuple[BlockMethod, PublishedForm]:
    known: list[str] = []
    for name in registry.entries:
        method = registry.get_method(name)
        form = method.published() if isinstance(method, BlockMethod) else None
        if isinstance(method, BlockMethod) and form:
            if form.reads(published):
                return method, form
            known += form.architectures
    raise UserError(
        f"{published.folder / 'config.json'}: architecture {published.architecture!r} is unknown; known: "
        f"{', '.join(sorted(known))}"
    )


def _split(tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The backbone's tensors, and those of a head. Copies of the target's tables are left out: it has them."""
    own = {name: tensor for name, tensor in tensors.items() if name in wanted}
    left_out = {*own, *SHARED, LM_HEAD, "d2t"}
    return own, {name: tensor for name, tensor in tensors.items() if name not in left_out}


def _misfits(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    missing = [f"{name} is missing" for name in sorted(set(wanted) - set(found))]
    unknown = [f"{name} is unknown" for name in sorted(set(found) - set(wanted))]
    return [
        *missing,
        *unknown,
        *(
            f"{name} is {list(found[name].shape)}, config.json makes it {list(wanted[name].shape)}"
            for name in sorted(set(found) & set(wanted))
            if found[name].shape != wanted[name].shape
        ),
    ]
