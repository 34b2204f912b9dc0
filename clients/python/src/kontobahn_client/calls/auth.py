"""Signing in, invitations and the users of the organisation.

A declaration is all there is of a call: its path, and its parameters and answer by their types.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from kontobahn_client.declare import delete, get, post, put
from kontobahn_client.models.auth import (
    Accept,
    ChangePassword,
    ChangeRole,
    InvitationView,
    Invite,
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
