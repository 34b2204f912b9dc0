"""The documentation as pages of the service: the Markdown of docs/, rendered, linked and searchable, without the network.

library.py    which pages there are, and in which order
markdown.py   Markdown to HTML
searching.py  what is found for some words; pure
routes.py     the addresses below /docs/guide
"""
