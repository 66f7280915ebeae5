"""Reports: tables from the log, as Markdown, CSV and on the terminal. Numbers come from `dcoco_bench.stats` only."""
