"""Teacher data, features, anchors, trainer."""
