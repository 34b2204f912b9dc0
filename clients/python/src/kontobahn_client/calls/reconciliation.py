"""Which payment paid which invoice."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from kontobahn_client.declare import post
from kontobahn_client.models.common import Data
from kontobahn_client.models.reconciliation import Lauf, NeuerLauf


class ReconciliationCalls:
    @post("/v2/reconciliation/runs")
    def trial_run(self, body: NeuerLauf, *, idempotency_key: str | None = None) -> Data[Lauf]:
        """Try which transactions would be matched to which open items."""
