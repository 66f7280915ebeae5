"""Other tools' results into our log, and ours into theirs."""
