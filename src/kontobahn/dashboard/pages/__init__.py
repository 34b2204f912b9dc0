"""One module a page, found by itself: what it declares with `page` and `action` is served. See docs/dashboard.md."""
