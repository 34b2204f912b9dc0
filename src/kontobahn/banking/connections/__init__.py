"""Bank connections, their accounts and their connect flows, as rows; and the calls that read and remove them."""
