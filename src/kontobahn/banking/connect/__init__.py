"""Connecting a bank: which banks there are, flows over HTTP, and the pages of ours on the way."""
