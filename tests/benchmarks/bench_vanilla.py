"""Vanilla on the torch engine against transformers' own `generate`, and its growth with streams. Run on demand:

    python -m tests.benchmarks.bench_vanilla [--prompts 6] [--tokens 64] [--repeats 3]

Prints tokens per second of each, alternating, and their ratios; needs the embedded model.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import perf_counter

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dcoco_bench import embedded
from dcoco_bench.cells import Sampling
from dcoco_bench.engines.base import Request
from dcoco_bench.engines.torch.engine import TorchEngine
from dcoco_bench.engines.torch.target import Target, load_model
from dcoco_bench.prompts import load_suite, render


def engine_tps(engine: TorchEngine, prompts: list[list[int]], streams: int, tokens: int) -> float:
    """Aggregate output tokens per second of a closed loop of `streams`."""
    waiting, in_flight, made = list(enumerate(prompts)), 0, 0
    began = perf_counter()
    while waiting or in_flight:
        while waiting and in_flight < streams:
            number, ids = waiting.pop(0)
            engine.submit(Request(number, ids, tokens, Sampling()))
            in_flight += 1
        for finished in engine.poll():
            in_flight -= 1
            made += len(finished.output_ids)
    return made / (perf_counter() - began)


def generate_tps(model: torch.nn.Module, prompts: list[list[int]], tokens: int) -> float:
    made, began = 0, perf_counter()
    for ids in prompts:
        out = model.generate(torch.tensor([ids]), max_new_tokens=tokens, do_sample=False)  # type: ignore[operator]
        made += out.shape[1] - len(ids)
    return made / (perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    folder = str(embedded.prepare())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = load_suite("gsm8k", num_prompts=max(20, options.prompts)).prompts
    ids = [render(tokenizer, [{"role": "user", "content": p.turns[0]}], False) for p in texts]
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    target = Target(load_model(folder, torch.float32, torch.device("cpu")))
    engine = TorchEngine(target, None, stop_ids=frozenset({2}), max_concurrency=32, max_context=1024)

    pairs = []
    with torch.inference_mode():
        generate_tps(plain, ids[:1], 8)
        engine_tps(engine, ids[:1], 1, 8)
        for _ in range(options.repeats):
            theirs = generate_tps(plain, ids[: options.prompts], options.tokens)
            ours = engine_tps(engine, ids[: options.prompts], 1, options.tokens)
            pairs.append((ours, theirs))
            print(f"one stream: engine {ours:.1f} tok/s, generate {theirs:.1f} tok/s, ratio {ours / theirs:.2f}")
    print(f"median ratio engine/generate: {median(a / b for a, b in pairs):.2f}")

    single = median(ours for ours, _ in pairs)
    crowd = [ids[i % len(ids)] for i in range(64)]
    for streams in (4, 32):
        total = engine_tps(engine, crowd[: 2 * streams], streams, options.tokens)
        print(f"{streams} streams: {total:.1f} tok/s in all, {total / single:.2f} times one stream")


if __name__ == "__main__":
    main()
