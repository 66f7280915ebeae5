"""The paper's tables, made from logs, and the values that the paper is known to have (`values.toml`)."""
