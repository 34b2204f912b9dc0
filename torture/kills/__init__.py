"""kill -9 under mixed load: paid lists, cash book, bookings, files and their undoing, payments, invoices and events, on SQLite and
PostgreSQL.

| module | what lives there |
|---|---|
| `__main__` | the command line |
| `run` | one run: somebody loads, somebody reads along, the service is killed again and again |
| `service` | the service that is killed, in several ways |
| `calls` | a call that is repeated with its key until it is answered |
| `load` | what the callers do |
| `readers` | who walks lists and logs by their cursors through all kills |
| `check` | what must hold afterwards, calculated from what was sent and not from what the service says about itself |
"""
