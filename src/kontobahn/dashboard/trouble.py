"""Errors as pages: what happened, and what to do."""

from __future__ import annotations

from starlette.responses import Response

from kontobahn.access.principal import Role
from kontobahn.dashboard.forms import words_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import Forbidden, KontobahnError, MethodNotAllowed, TooLarge, TooManyRequests, Unavailable

ROLES: dict[Role, str] = {"owner": N_("Owner"), "admin": N_("Administrator"), "member": N_("Member")}
_TITLES = {
    400: N_("That did not work"),
    402: N_("Not enough credits"),
    403: N_("You may not do this"),
    404: N_("This page does not exist"),
    405: N_("This page does not exist"),
    409: N_("That is not possible at the moment"),
    413: N_("That was too large"),
    415: N_("That did not work"),
    429: N_("Too many attempts"),
    503: N_("Please try again in a moment"),
}
_WHAT_TO_DO = {
    402: N_(
        "Ask the operator of this installation for more credits. The page “Credits” shows what they were used for."
    ),
    403: N_("If you need this, ask an owner or administrator of your organisation."),
    404: N_("It may have been deleted, or it belongs to another organisation. Start from the overview."),
    405: N_("It may have been deleted, or it belongs to another organisation. Start from the overview."),
    413: N_("Send a smaller file, or split it."),
    429: N_("Please wait a little, then try again."),
    503: N_("Nothing was changed. Reload this page; if this continues, tell the operator of this installation."),
}


def needs_role(role: Role) -> Forbidden:
    return Forbidden(_("This page is for the role “%(role)s” or above.", role=_(ROLES[role])))


def page_for(visit: Visit, error: KontobahnError) -> Response:
    status = error.status
    if status == 500:
        return crashed(visit)
    says_more = status not in (405, 503) and not str(error).endswith(("not found.", "no such page."))
    shown = words_of(error) if says_more else ""
    title, to_do = _(_TITLES.get(status, _TITLES[400])), _(_WHAT_TO_DO.get(status, ""))
    response = _page(visit, status, title, shown, to_do, str(error.extra.get("reconnectUrl", "")))
    if isinstance(error, TooManyRequests | Unavailable):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.allowed)
    elif isinstance(error, TooLarge):
        response.headers["Connection"] = "close"
    return response


def crashed(visit: Visit) -> Response:
    title = _("Something went wrong on our side")
    text = _("The operator finds the cause in the log under this number: %(id)s.", id=visit.exchange.request_id)
    return _page(
        visit, 500, title, text, _("Go back and try again. If it happens again, send this number to the operator.")
    )


def _page(visit: Visit, status: int, title: str, text: str, what_to_do: str, renew: str = "") -> Response:
    # The address of the page, without our own host in front of it.
    path = renew.removeprefix(visit.context.settings.base_url)
    return visit.show("error.html", status, title=title, text=text, what_to_do=what_to_do, renew=path)
