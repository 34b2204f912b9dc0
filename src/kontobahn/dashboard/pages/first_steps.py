"""Setting up, step by step: what is done, what comes next. Each step can be left and taken up again."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from kontobahn.access import client_access, invitations, users
from kontobahn.banking.connections import accounts
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_
from kontobahn.db import Tx
from kontobahn.ledger import connections
from kontobahn.reconciliation import store as matching

# The first steps of an organisation, from its name to the first person invited: each ticked by a fact, never by a
# click.
#
# `find` is for whoever shows them: the page that lists all, and the overview while one is open.


PATH = f"{ROOT}/set-up"


class Step(NamedTuple):
    """Title, sentence and button are marked for translation."""

    title: str
    sentence: str
    button: str
    path: str
    is_done: bool


def find(tx: Tx, organization_id: str) -> list[Step]:
    has_accounts_set_up = bool(matching.all_settings(tx, organization_id))
    return [
        Step(
            N_("Company"),
            N_("The name that appears everywhere, and the address for invoices and letters."),
            N_("Company data"),
            f"{ROOT}/company",
            # The first run asks for it.
            True,
        ),
        Step(
            N_("Accounting"),
            N_("Keep the books here with SKR03 or SKR04, or import what your tax adviser exports in DATEV format."),
            N_("Set up the books"),
            f"{ROOT}/books/new",
            any(item.status == "connected" for item in connections.listing(tx, (organization_id,))),
        ),
        Step(
            N_("Bank"),
            N_("Import a statement file, or connect your bank."),
            N_("Add a bank account"),
            f"{ROOT}/connections/new",
            accounts.any_exists(tx, organization_id),
        ),
        Step(
            N_("Match payments"),
            N_("Say which books an account belongs to, let matches be found, and confirm the first one."),
            N_("Match payments"),
            f"{ROOT}/reconciliation" if has_accounts_set_up else f"{ROOT}/reconciliation-accounts",
            matching.any_live_match(tx, organization_id),
        ),
        Step(
            N_("Invite somebody"),
            N_("A colleague or your tax adviser: everybody has their own account and role."),
            N_("Invite somebody"),
            f"{ROOT}/team",
            _is_shared(tx, organization_id),
        ),
    ]


def _is_shared(tx: Tx, organization_id: str) -> bool:
    return (
        users.are_several(tx, organization_id)
        or invitations.any_made(tx, organization_id)
        or client_access.any_to(tx, organization_id)
    )


def is_open(steps: list[Step]) -> bool:
    return not all(step.is_done for step in steps)


def next_step(steps: list[Step]) -> Step | None:
    return next((step for step in steps if not step.is_done), None)


@page("/set-up", help="first-steps")
async def set_up(visit: Visit) -> Response:
    steps = await visit.read(find, visit.organization_id)
    return visit.show("set_up.html", steps=steps, next=next_step(steps))
