"""File formats: from bytes to facts and back, one package per format. Pure: no database, no clock, no HTTP, no area."""
