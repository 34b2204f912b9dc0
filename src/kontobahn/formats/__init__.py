"""Bytes of the outside world to facts and back: one package a format. Pure: no database, no clock, no HTTP, no area."""
