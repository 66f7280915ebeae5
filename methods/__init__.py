"""The methods: one folder each, with all about it. Installs as `dcoco_bench.methods`."""
