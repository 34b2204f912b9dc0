"""Hosted pages that any bank needs: layout, forms, headers, words. What a step means belongs to the bank that shows it."""
