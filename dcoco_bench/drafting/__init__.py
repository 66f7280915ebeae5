"""What methods share: the block drafter, its cache, verification rules, checkpoints."""
