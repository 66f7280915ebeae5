"""`python -m dcoco_bench.cli` is `dcoco-bench`."""

from dcoco_bench.cli import main

main()
