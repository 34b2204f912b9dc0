"""The storage seam. A unit of work is a plain function that takes the transaction first:

    await db.read(fn, *args)     a consistent snapshot
    await db.write(fn, *args)    one transaction, all or nothing, re-run on a conflict

``fn`` is synchronous and runs off the event loop, so no transaction can be held across the network. The same function
runs on SQLite and on PostgreSQL; SQL is written once, in the common subset of both, with ``?`` for parameters.
Nothing here knows what is stored.
"""

from kontobahn.db.database import Database, Row, Tx, open_database

__all__ = ["Database", "Row", "Tx", "open_database"]
