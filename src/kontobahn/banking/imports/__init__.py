"""Importing statement files: each as a whole, and each account's statements in order. Reading them is `formats`' part."""
