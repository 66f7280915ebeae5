"""The report as one HTML page that opens from disk, with nothing to fetch."""
