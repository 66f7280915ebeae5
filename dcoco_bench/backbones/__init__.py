"""Target models as data: one TOML file each. The file's name is the backbone's name."""
