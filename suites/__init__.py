"""The suites: one TOML file each, and samples. Installs as `dcoco_bench.suites`."""
