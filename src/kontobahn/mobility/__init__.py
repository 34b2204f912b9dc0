"""The mobility area: customers of transport tickets, their tickets, and collective invoices as PDF and XML."""
