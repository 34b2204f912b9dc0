"""The sandbox: a bank to develop against. It plays an external bank, with tables, pages, a clock and webhooks of its own."""
