"""The sandbox: a bank to develop against. It plays a bank outside, with tables, pages, a clock and webhooks of its own."""
