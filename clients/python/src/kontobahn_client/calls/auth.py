"""Signing in, invitations and the users of the organisation.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from kontobahn_client.calls.declarations import delete, get, post, put
from kontobahn_client.models.auth import (
    Accept,
    AccessRemoval,
    ChangePassword,
    ChangeRole,
    ClientAccessView,
    Confirm,
    ConfirmedView,
    GiveAccess,
    InvitationView,
    Invite,
    Join,
    NewInvitationView,
    NewSessionView,
    PasswordChange,
    PasswordLink,
    Removal,
    ResetPassword,
    SessionView,
    SignIn,
    UserView,
)
from kontobahn_client.models.common import Data, Page


class AuthCalls:
    @post("/v2/auth/sessions")
    def sign_in(self, body: SignIn, *, idempotency_key: str | None = None) -> Data[NewSessionView]:
        """Sign in with e-mail address and password, and with a code if the person has a second factor."""

    @get("/v2/auth/sessions")
    def list_sessions(self) -> Page[SessionView]:
        """List the caller's own active sessions."""

    @post("/v2/auth/sessions/confirm")
    def confirm_session(self, body: Confirm, *, idempotency_key: str | None = None) -> Data[ConfirmedView]:
        """Show once more who you are, before what matters."""

    @delete("/v2/auth/sessions/{id}")
    def end_session(self, id: str) -> Data[Removal]:
        """End one of the caller's own sessions."""

    @post("/v2/auth/invitations")
    def invite(self, body: Invite, *, idempotency_key: str | None = None) -> Data[NewInvitationView]:
        """Invite a person to the organisation."""

    @get("/v2/auth/invitations")
    def list_invitations(self) -> Page[InvitationView]:
        """List the organisation's invitations, open and settled."""

    @delete("/v2/auth/invitations/{id}")
    def revoke_invitation(self, id: str) -> Data[InvitationView]:
        """Revoke an invitation that was not accepted."""

    @post("/v2/auth/invitations/accept")
    def accept_invitation(self, body: Accept, *, idempotency_key: str | None = None) -> Data[UserView]:
        """Accept an invitation: the person becomes a user with the role offered."""

    @get("/v2/auth/users")
    def list_users(self) -> Page[UserView]:
        """List the organisation's users."""

    @put("/v2/auth/users/{id}")
    def change_role(self, id: str, body: ChangeRole, *, idempotency_key: str | None = None) -> Data[UserView]:
        """Change a user's role."""

    @delete("/v2/auth/users/{id}")
    def delete_user(self, id: str) -> Data[Removal]:
        """Delete a user."""

    @post("/v2/auth/password")
    def change_password(self, body: ChangePassword, *, idempotency_key: str | None = None) -> Data[PasswordChange]:
        """Change one's own password."""

    @post("/v2/auth/users/{id}/password-link")
    def create_password_link(self, id: str, *, idempotency_key: str | None = None) -> Data[PasswordLink]:
        """Make a link with which a person sets a new password, once."""

    @post("/v2/auth/password/reset")
    def reset_password(self, body: ResetPassword, *, idempotency_key: str | None = None) -> Data[UserView]:
        """Set a new password with the token of a link."""

    @post("/v2/auth/invitations/join")
    def join_as_adviser(self, body: Join, *, idempotency_key: str | None = None) -> Data[ClientAccessView]:
        """Accept an invitation to another organisation as somebody who is a user already."""

    @get("/v2/auth/client-access")
    def list_client_access(self) -> Page[ClientAccessView]:
        """List who may work in other organisations: your people in your clients, and others' people in yours."""

    @put("/v2/auth/client-access/{user_id}/{organization_id}")
    def give_client_access(
        self, user_id: str, organization_id: str, body: GiveAccess, *, idempotency_key: str | None = None
    ) -> Data[ClientAccessView]:
        """Give a person a role in a client, or another one."""

    @delete("/v2/auth/client-access/{user_id}/{organization_id}")
    def withdraw_client_access(self, user_id: str, organization_id: str) -> Data[AccessRemoval]:
        """End a person's access to a client, from either side."""
