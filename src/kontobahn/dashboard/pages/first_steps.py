"""Setting up, step by step: what is done, what comes next. Each step can be left and taken up again."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.dashboard import first_steps
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.visit import Visit


@page("/set-up", help="first-steps")
async def set_up(visit: Visit) -> Response:
    steps = await visit.read(first_steps.find, visit.organization_id)
    return visit.show("set_up.html", steps=steps, next=first_steps.next_step(steps))
