"""Account statements read (camt, MT940), payment orders written (pain.001), their status reports read (pain.002).

    with path.open("rb") as file:
        for item in read(file, path.name):  # Opening, Entry …, Closing; or StatusReport
            ...

A file is known by its content. An error in it is a StatementError, perhaps after some items were given: take them in one
transaction. Pure: no database, no HTTP, no network.
"""
