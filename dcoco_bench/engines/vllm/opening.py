"""Open the vLLM engine for one (backbone, method): export the draft, start or find the server, read it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcoco_bench.backbone import Backbone, load_tokenizer
from dcoco_bench.embedded import cache_root
from dcoco_bench.engines.synthetic import ARGUMENT, synthetic_tau
from dcoco_bench.engines.vllm import readback
from dcoco_bench.engines.vllm.candidates import VARIABLE, CandidateFile
from dcoco_bench.engines.vllm.client import Serving
from dcoco_bench.engines.vllm.command import ServerPlan
from dcoco_bench.engines.vllm.engine import VLLMEngine
from dcoco_bench.engines.vllm.options import Options
from dcoco_bench.engines.vllm.server import Server, ServerError, free_port
from dcoco_bench.engines.vllm.versions import VLLM, find_vllm
from dcoco_bench.errors import UserError
from dcoco_bench.method import Method, MethodSpec
from dcoco_bench.provenance import weights_hash

ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # /server_info: the configuration that really runs
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
FORM = 2  # of an export; a new one is made where it has changed
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1"}  # GiB; unset, vLLM takes half the memory


def open_engine(
    backbone: Backbone,
    method: Method,
    params: Mapping[str, Any],
    checkpoint: Path | None,
    *,
    dtype: str,
    seed: int,
    max_concurrency: int,
    max_context: int,
    record_candidates: bool,
    engine_args: Mapping[str, str],
    log_dir: Path,
) -> VLLMEngine:
    """See `engines.opening.Opener`. Raises UserError, or ServerError where the server does not come up."""
    options = Options.parse({"seed": str(seed), **engine_args})
    plan = server_plan(backbone, method, params, checkpoint, dtype, max_concurrency, max_context, options)
    recorded = _recording(plan, method, options, log_dir) if record_candidates and plan.draft else None
    if recorded:
        options = replace(options, environment={**options.environment, VARIABLE: str(recorded.path)})
        plan = replace(plan, flags=eager(plan.flags))
    if options.base_url:
        return _attach(plan, options, stop_ids(backbone))
    vllm = find_vllm(options.python)
    if plan.draft and plan.draft.plugin and not vllm.has_plugin:
        raise UserError(f"{options.python} lacks dcoco-bench, whose plug-in serves {method.name}; install it there too")
    if plan.synthetic_tau is not None and vllm.cpu:
        raise UserError(
            f"--engine-arg {ARGUMENT}: vLLM's CPU build has no synthetic acceptance; use --engine torch, or a GPU"
        )
    server = _start(plan, vllm, options, log_dir / f"{method.name}.log")
    try:
        found = readback.effective(readback.server_info(server.url))
        if wrong := readback.mismatches(plan, found):
            raise ServerError(f"the server runs something else than asked: {'; '.join(wrong)}")
        shown = {"vllm": f"{vllm.distribution} {vllm.version}", "command": server.command, **simulated(plan), **found}
        return VLLMEngine(
            _serving(plan, server.url, options, stop_ids(backbone), vllm.per_request_rounds), server, shown, recorded
        )
    except BaseException:
        server.stop()
        raise


def _recording(plan: ServerPlan, method: Method, options: Options, log_dir: Path) -> CandidateFile:
    """An empty file for the plug-in to write to. Raises UserError where no plug-in of ours would."""
    if options.base_url:
        raise UserError("--record-candidates: not with --base-url; it needs a server started for it")
    if not (plan.draft and plan.draft.plugin):
        raise UserError(
            f"--record-candidates: vLLM serves {method.name} by itself and shows no candidates; leave it out"
        )
    file = (log_dir / f"{method.name}.candidates.jsonl").resolve()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    return CandidateFile(file)


def server_plan(
    backbone: Backbone,
    method: Method,
    params: Mapping[str, Any],
    checkpoint: Path | None,
    dtype: str,
    streams: int,
    max_context: int,
    options: Options,
) -> ServerPlan:
    """What is asked of the server; the draft is exported now."""
    draft = method.vllm_draft(checkpoint, params)
    folder = None
    if draft and checkpoint:
        spec = str(MethodSpec.of(method.name, params, method.params))
        folder = exported(checkpoint, backbone, spec if draft.plugin else None)
    return ServerPlan(
        model=str(backbone.materialise()),
        name=backbone.label,
        dtype=dtype,
        max_context=max_context + (draft.slots + 1 if draft else 0),
        max_streams=streams,
        draft=draft,
        draft_folder=folder,
        flags=options.server_flags(),
        synthetic_tau=synthetic_tau(options.synthetic, draft.slots if draft else None),
    )


def simulated(plan: ServerPlan) -> dict[str, Any]:
    """Marks what was not decided by the target."""
    return {} if plan.synthetic_tau is None else {"simulated": True, "synthetic_tau": plan.synthetic_tau}


def eager(flags: Sequence[str]) -> tuple[str, ...]:
    """With --enforce-eager: a captured graph could not write candidates down."""
    return tuple(flags) if "--enforce-eager" in flags else (*flags, "--enforce-eager")


def server_environment(vllm: VLLM, options: Options) -> dict[str, str]:
    return {**ENVIRONMENT, **(CPU_ENVIRONMENT if vllm.cpu else {}), **options.environment}


def exported(checkpoint: Path, backbone: Backbone, plugin_spec: str | None) -> Path:
    """The checkpoint as vLLM loads it, made once and kept in the cache under its hash."""
    from dcoco_bench.drafting.export import export_for_vllm

    name = f"{backbone.label}-{weights_hash(checkpoint)}-{FORM}" + (f"-{plugin_spec}" if plugin_spec else "")
    out = cache_root() / "vllm" / name
    if not (out / "config.json").is_file():
        out.parent.mkdir(parents=True, exist_ok=True)
        export_for_vllm(checkpoint, out, backbone, plugin_spec)
    return out


def stop_ids(backbone: Backbone) -> frozenset[int]:
    """The generation config's end-of-sequence ids, and the tokenizer's."""
    file = backbone.folder() / "generation_config.json"
    configured = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(i for i in (*ids, load_tokenizer(backbone).eos_token_id) if isinstance(i, int))


def _start(plan: ServerPlan, vllm: VLLM, options: Options, log: Path) -> Server:
    port = free_port()
    server = Server(plan.command(vllm, port), server_environment(vllm, options), port, log)
    server.start(options.startup_timeout)
    return server


def _attach(plan: ServerPlan, options: Options, stops: frozenset[int]) -> VLLMEngine:
    """To a server that somebody else runs: it must be what the cell says, as far as it shows."""
    url = options.base_url
    assert url is not None
    model = readback.served_model(url)
    found = readback.effective(readback.server_info(url))
    if wrong := readback.mismatches(plan, found):
        raise UserError(f"--base-url {url}: not the cell's server: {'; '.join(wrong)}; start it as the cell says")
    serving = _serving(plan, url, options, stops, reports=True)
    shown = {"vllm": readback.version(url), "attached": url, **found}
    return VLLMEngine(Serving(**{**vars(serving), "model": str(model["id"])}), None, shown)


def _serving(plan: ServerPlan, url: str, options: Options, stops: frozenset[int], reports: bool) -> Serving:
    slots = plan.draft.slots if plan.draft else 0
    return Serving(url, plan.name, stops, slots, reports, options.request_timeout)
