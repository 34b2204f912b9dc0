"""The documentation as pages of the service: the Markdown of docs/, rendered, linked and searchable, without the network.

library.py    the pages and their order; Markdown to HTML
search.py     the search: sections by the words of a question; pure
routes.py     the addresses below /docs/guide, and the words around a page, German and English
"""
