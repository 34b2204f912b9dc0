"""Real accounts without an aggregator: statements come in as files, payments go out as files."""
