"""DCOCO's batched scoring pass against its own matrix products alone. Run on demand, on a quiet machine:

    python -m tests.benchmarks.bench_scorer [--hidden 4096] [--streams 32] [--slots 15] [--k 16] [--device cuda]

Two forms: `whole` projects every candidate's embedding each round, as the paper's equations read; `table` gathers the
token halves from a table made once per checkpoint, as serving does. Alternating, medians of several repeats.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from dcoco_bench.methods.dcoco.head import Corrector, CorrectorConfig


def seconds(work: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - began


def products(corrector: Corrector, streams: int, slots: int, k: int, whole: bool) -> Callable[[], None]:
    """Every matrix product of the pass on ready inputs of the same shapes, and nothing else."""
    c, device = corrector.config, corrector.mlp_out.weight.device
    candidates, states, pairs = streams * slots * k, streams * slots, streams * (slots - 1)
    shapes = [
        (states, c.hidden_size, c.width),  # hid_proj
        (states, c.width, c.width),  # fuse, the state's half
        (states, c.hidden_size, c.width),  # pair_proj, left
        (states, c.hidden_size, c.width),  # pair_proj, right
        (candidates, c.width, c.mlp_width),  # mlp_in of the earlier candidate
        (candidates, c.width, c.mlp_width),  # mlp_in of the later one
        (pairs, c.width, c.mlp_width),  # mlp_in of the pair state
        (pairs * k * k, c.mlp_width, 1),  # mlp_out
    ]
    if whole:
        shapes += [(candidates, c.hidden_size, c.width), (candidates, c.width, c.width)]  # emb_proj, fuse
    made = [(torch.randn(n, inner, device=device), torch.randn(inner, out, device=device)) for n, inner, out in shapes]

    def work() -> None:
        for left, right in made:
            left @ right

    return work


def scoring(corrector: Corrector, streams: int, slots: int, k: int, whole: bool) -> Callable[[], Tensor]:
    """The pass as served: transitions of every pair of neighbouring slots, all streams at once."""
    c, device = corrector.config, corrector.mlp_out.weight.device
    hidden = torch.randn(streams, slots, c.hidden_size, device=device)
    logits = torch.randn(streams, slots, k, device=device)
    embedded = torch.randn(streams, slots, k, c.hidden_size, device=device)
    halves = corrector.token_half(embedded)
    if whole:
        return lambda: corrector.scores(logits, corrector.token_half(embedded), hidden)[1]
    return lambda: corrector.scores(logits, halves, hidden)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--slots", type=int, default=15)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true", help="Also time the pass under torch.compile.")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.manual_seed(0)
    corrector = Corrector(CorrectorConfig(options.hidden), torch.Generator().manual_seed(0)).to(device).eval()
    corrector.mlp_out.weight.data.normal_()
    shape = (options.streams, options.slots, options.k)
    with torch.inference_mode():
        for whole in (True, False):
            alone, score = products(corrector, *shape, whole), scoring(corrector, *shape, whole)
            forms = {"eager": score}
            if options.compile:
                forms["compiled"] = torch.compile(score)
            for work in (alone, *forms.values()):
                work()
            for name, form in forms.items():
                times = [(seconds(form, device), seconds(alone, device)) for _ in range(options.repeats)]
                ours, theirs = (1000 * median(column) for column in zip(*times, strict=True))
                ratio = median(a / b for a, b in times)
                print(
                    f"{'whole' if whole else 'table'}, {name}: pass {ours:.2f} ms, products {theirs:.2f} ms, "
                    f"median ratio {ratio:.2f}"
                )


if __name__ == "__main__":
    main()
