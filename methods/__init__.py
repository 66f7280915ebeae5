"""Methods, one folder each. Installed as `dcoco_bench.methods`."""
