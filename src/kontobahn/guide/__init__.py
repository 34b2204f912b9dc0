"""The documentation as pages of the service: the Markdown of docs/, rendered, linked and searchable, without the network.

library.py    which pages there are, and in which order
texts.py      the words around a page, German and English
markdown.py   Markdown to HTML
search.py     the search: sections by the words of a question; pure
routes.py     the addresses below /docs/guide
"""
