"""Bank connections: their rows and status, connect flows, refreshes, and the calls about them."""
