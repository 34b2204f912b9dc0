"""Every trial under fault: how it is run, what is done in it and what must hold. `make torture` and its page go by this list."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple


class Trial(NamedTuple):
    name: str
    module: str
    arguments: str
    # For the short form; None leaves the trial out of it.
    short: str | None
    done: str
    holds: str

    def command(self, *, short: bool = False) -> str:
        arguments = (self.short or "") if short else self.arguments
        return f"make torture TORTURE={self.module}" + (f' ARGS="{arguments}"' if arguments else "")


_KILLED = (
    "kill -9 at any moment of mixed load: paid lists, cash book entries, bookings, DATEV and camt files (some of them imported after"
    " their answer), DATEV imports undone in one transaction or in slices and imported again, payments at the sandbox bank, ticket"
    " invoices, events to a receiver that now and then refuses one; some kills wait for a large import that is being undone"
)
_ALL_ONCE = (
    "0 acknowledged writes lost, 0 done twice (whatever was not answered is repeated with its key), credits as calculated from the"
    " answers, numbers of invoices and of the cash book without gaps, read models as the postings say, an undone import reversed once"
    " and nothing to open items and trial balance, any other whole, nothing left of what was broken off, readers by cursor got"
    " everything once and in order, every event delivered, no process left over"
)

TRIALS = (
    Trial(
        "kills on SQLite", "kills", "--kills 100 --runs 5 --seed 101 --engine sqlite", "--kills 4 --engine sqlite",
        f"{_KILLED}; the process, its group, or a start.", f"{_ALL_ONCE}.",
    ),
    Trial(
        "kills on PostgreSQL", "kills", "--kills 100 --runs 5 --seed 201 --engine postgres", "--kills 4 --engine postgres",
        f"{_KILLED}; with one or two workers: one of them, the process that started them, its group, or a start.",
        f"{_ALL_ONCE}.",
    ),
    Trial(
        "payments", "payments", "--payments 1000 --kills 12", "--payments 40 --kills 2",
        "A bank reports twice, late, in the wrong order and against what it said before, receivers refuse, the service is killed.",
        "One end for every payment, credits charged or given back once, one event for each change, delivered in order.",
    ),
    Trial(
        "FinTS", "banks", "--provider fints --kills 50", "--provider fints --kills 2",
        "A bank is connected and read by FinTS, at a simulated bank, while the service is killed.",
        "A fetch is stored as a whole or not at all; nothing lost, nothing twice, ids as they were.",
    ),
    Trial(
        "EBICS", "ebics_kills", "--kills 10 --runs 5 --parts connecting fetching", "--kills 2 --parts fetching",
        "A bank is connected and read by EBICS, at a simulated bank, while the service is killed in every phase: before the bank has the"
        " message, and after.",
        "No statement lost, none twice, no receipt for what is not stored, no keys that the bank has and we have not.",
    ),
    Trial(
        "EBICS, orders", "ebics_kills", "--kills 10 --runs 5 --parts sending deciding signing cancelling", "--kills 2 --parts sending",
        "Order files are sent by EBICS, looked up in the bank's protocol, signed and cancelled by a person, while the service is killed in"
        " every phase.",
        "Each file is at the bank once and unsigned; what a person signed is carried out once, what was cancelled never.",
    ),
    Trial(
        "EBICS, keys", "ebics_kills", "--kills 10 --runs 5 --parts renewing locking", "--kills 2 --parts renewing",
        "A person gives the bank new keys, and locks the access, while the service is killed in every phase.",
        "There are always keys here that the bank knows; the access is locked, here and at the bank.",
    ),
    Trial(
        "Cash entries at DATEV", "datev_kills", "--kills 5", "--kills 1",
        "Cash entries go to a simulated DATEV while the service is killed at every step of them: before DATEV has the request, and after.",
        "Each entry is in the cash book once, none is lost, and each was charged once.",
    ),
    Trial(
        "The sign-in at DATEV", "datev_sign_in_kills", "--kills 25", "--kills 1",
        "A sign-in at a simulated DATEV is renewed while the service is killed: before DATEV has the token, while it redeems it, before the"
        " new one is stored, and after that.",
        "It lives on where DATEV never had the token or the new one was stored; otherwise it has ended, and the call says where to sign in"
        " again. At most two requests for it, never a loop.",
    ),
    Trial(
        "large statements", "statement_kills", "--kills 25", "--kills 1 --entries 300",
        "Large statements of new accounts, and then of known ones, are sent to a service that is killed amid their slices, and again.",
        "A new account has all of its transactions or is not there; a known one has the balance of a statement only with all of its"
        " transactions. In the end each has all of them once, and nothing is left of the rest.",
    ),
    Trial(
        "EBICS at any moment", "banks", "--provider ebics --kills 50", "--provider ebics --kills 2",
        "A bank is connected and read by EBICS while the service is killed.",
        "A fetch is stored as a whole or not at all; nothing lost, nothing twice, ids as they were.",
    ),
    Trial(
        "Salt Edge", "salt_edge", "--kills 50", "--kills 2",
        "Connecting, refreshing, paying and callbacks of the simulator of Salt Edge while the service is killed.",
        "No booking lost or twice, no payment made twice, no flow left half done.",
    ),
    Trial(
        "Enable Banking", "enable_banking_kills", "--kills 50", "--kills 1",
        "Connecting, reading, paying and webhooks of the simulator of Enable Banking while the service is killed.",
        "Nothing paid twice, no report lost, no connection half made, no transaction lost or twice.",
    ),
    Trial(
        "PostgreSQL stopped", "stopped_database", "--rounds 12", "--rounds 2",
        "PostgreSQL is shut down or killed under load and started again.",
        "503 within seconds, never 500; ready again by itself; nothing acknowledged is lost, nothing done twice.",
    ),
    Trial(
        "PostgreSQL frozen", "frozen_database", "--seconds 20", "--seconds 6",
        "PostgreSQL is stopped in the middle of its work (SIGSTOP) and continued.",
        "Calls refused within 15 s, `/readyz` within 2 s; nothing done twice.",
    ),
    Trial(
        "full disk", "full_disk", "--rounds 8", "--rounds 1",
        "The disk with database and log on it fills up to the last byte under load, and has room again.",
        "503 meanwhile, `/healthz` as always; nothing half done, nothing twice; no restart needed.",
    ),
    Trial(
        "broken log", "broken_log", "", None,
        "A log on a full disk, into a pipe that nobody holds, into a pipe that nobody reads.",
        "Answers and jobs as before.",
    ),
    Trial(
        "receivers", "receivers", "--payments 60", "--payments 8",
        "Receivers of events hang, drip, fail, redirect, answer without end, babble, hang up or are gone, beside a good one.",
        "The good one gets every event at once; no redirect is followed; when the others answer, they get every event, in order.",
    ),
    Trial(
        "clock", "clock_steps", "", None,
        "The clock is set back, then in another run forward, by an hour.",
        "Jobs go on, a rate window ends when it should, credits add up.",
    ),
    Trial(
        "bodies", "bodies", "", None,
        "Bodies made to cost as much as they can, with and without a key.", "Refused; others answered meanwhile.",
    ),
    Trial(
        "connections", "connections", "--connections 2000", "--connections 200",
        "Connections that are silent, drip or are held open.", "Ended; others answered meanwhile.",
    ),
    Trial(
        "sign-ins", "sign_ins", "", None,
        "Guesses at passwords from 80 addresses at once.", "Slowed down, others answered meanwhile, the owner gets in.",
    ),
    Trial(
        "large invoice", "large_invoice", "", None,
        "12,000 tickets of one customer.", "Three invoices with their documents, others answered meanwhile.",
    ),
    Trial(
        "long history, FinTS", "long_history", "--provider fints --transactions 100000", None,
        "100,000 transactions through a simulated bank.", "None lost, none twice, ids rise, memory within a bound.",
    ),
    Trial(
        "long history, EBICS", "long_history", "--provider ebics --transactions 100000", None,
        "100,000 transactions through a simulated bank, in segments of a megabyte.",
        "None lost, none twice, ids rise, memory within a bound.",
    ),
    Trial(
        "long history, Salt Edge", "many_bookings", "--bookings 100000", None,
        "100,000 bookings through a simulator, then news told twice and backwards.",
        "None lost, none twice, ids rise, memory within a bound.",
    ),
    Trial(
        "long history, Enable Banking", "enable_banking", "--transactions 100000", None,
        "100,000 transactions through a simulator, then fetched again with answers that break.",
        "None lost, none twice, ids rise, memory flat.",
    ),
    Trial(
        "cluster", "cluster", "", None,
        "Several hosts behind HAProxy with PgBouncer, PostgreSQL with a standby, Redis and `jobs` apart; one after the other is killed.",
        "No acknowledged write lost, no credit or event doubled; calls that fail say 503.",
    ),
)  # fmt: skip


def present() -> list[Trial]:
    """Those whose program is there."""
    return [trial for trial in TRIALS if importlib.util.find_spec(f"torture.{trial.module}") is not None]
