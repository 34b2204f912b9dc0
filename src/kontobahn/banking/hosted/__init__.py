"""Hosted pages that any bank needs: layout, forms, headers. What a step means belongs to the bank that shows it."""
