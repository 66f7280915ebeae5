"""`dcoco-bench export` and `dcoco-bench serve`: from a checkpoint to a server that a user would deploy."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from dcoco_bench.errors import UserError

_METHOD = Annotated[str, typer.Option(help="The method, e.g. dflash or dcoco@select=global-sum.")]
_BACKBONE = Annotated[str, typer.Option(help="The target.")]
_CHECKPOINT = Annotated[Path | None, typer.Option(help="The draft. Default: the method's own for the backbone.")]


def register(app: typer.Typer) -> None:
    app.command("export")(export)
    app.command("serve")(serve)


def export(
    method: _METHOD,
    out: Annotated[Path, typer.Option(help="New folder.")],
    backbone: _BACKBONE = "smollm2-135m",
    checkpoint: _CHECKPOINT = None,
    target: Annotated[str, typer.Option("--for", help="vllm.")] = "vllm",
    native: Annotated[
        bool, typer.Option(help="As vLLM's own DFlash, without our plug-in and the method's head.")
    ] = False,
) -> None:
    """A draft checkpoint as a server loads it."""
    from dcoco_bench.backbone import resolve_backbone
    from dcoco_bench.drafting.export import export_for_vllm
    from dcoco_bench.registry import Registry

    if target != "vllm":
        raise UserError(f"--for {target}: unknown; say vllm")
    if out.exists():
        raise UserError(f"--out {out}: exists; choose a new folder")
    registry, where = Registry(), resolve_backbone(backbone)
    spec = registry.canonical(method)
    given = {spec: checkpoint} if checkpoint else None
    source = registry.checkpoint_for(spec, where.label, given)
    if source is None:
        raise UserError(f"method {spec!r} has no draft to export")
    export_for_vllm(source, out, where, None if native else spec)
    typer.echo(str(out))


def serve(
    method: _METHOD,
    backbone: _BACKBONE = "smollm2-135m",
    checkpoint: _CHECKPOINT = None,
    port: Annotated[int, typer.Option(help="On the loopback.")] = 8000,
    dtype: Annotated[str, typer.Option()] = "auto",
    max_model_len: Annotated[int, typer.Option(help="Prompt and output tokens.")] = 2048,
    max_num_seqs: Annotated[int, typer.Option(help="Streams.")] = 32,
    engine_arg: Annotated[list[str] | None, typer.Option(help="As for `run`; others are flags of the server.")] = None,
    show: Annotated[bool, typer.Option("--print", help="Print the command instead of running it.")] = False,
) -> None:
    """The exact vLLM server that a run of this method is measured on."""
    from dcoco_bench.backbone import resolve_backbone
    from dcoco_bench.engines.opening import parse_engine_args
    from dcoco_bench.engines.vllm.opening import server_environment, server_plan
    from dcoco_bench.engines.vllm.options import Options
    from dcoco_bench.engines.vllm.versions import find_vllm
    from dcoco_bench.method import MethodSpec
    from dcoco_bench.registry import Registry

    registry, where = Registry(), resolve_backbone(backbone)
    spec = registry.canonical(method)
    parsed = MethodSpec.parse(spec)
    known = registry.get_method(parsed.name)
    source = registry.checkpoint_for(spec, where.label, {spec: checkpoint} if checkpoint else None)
    options = Options.parse(parse_engine_args(tuple(engine_arg or ())))
    plan = server_plan(where, known, parsed.resolve(known.params), source, dtype, max_num_seqs, max_model_len, options)
    vllm = find_vllm(options.python)
    command, environment = plan.command(vllm, port), server_environment(vllm, options)
    if show:
        words = [f"{name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
        typer.echo(" ".join([*words, shlex.join(command)]))
        return
    sys.stdout.flush()
    os.execvpe(command[0], command, {**os.environ, **environment})
