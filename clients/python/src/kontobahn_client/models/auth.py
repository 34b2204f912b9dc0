"""Signing in, invitations and users. Names are those of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kontobahn_client.models.common import Answer, Body


class SignIn(Body, kw_only=True):
    email: str
    password: str
    code: str | None = None


class Invite(Body, kw_only=True):
    email: str
    role: Literal["admin", "bookkeeping", "member", "owner", "read_only"] | None = None


class Confirm(Body, kw_only=True):
    password: str
    code: str | None = None


class Join(Body, kw_only=True):
    token: str


class GiveAccess(Body, kw_only=True):
    role: Literal["admin", "bookkeeping", "member", "read_only"]


class Accept(Body, kw_only=True):
    token: str
    name: str
    password: str


class ChangeRole(Body, kw_only=True):
    role: Literal["admin", "bookkeeping", "member", "owner", "read_only"]


class ChangePassword(Body, kw_only=True):
    old_password: str
    new_password: str


class ResetPassword(Body, kw_only=True):
    token: str
    password: str


class UserView(Answer, kw_only=True):
    id: str
    organization_id: str
    email: str
    name: str
    role: str
    created_at: datetime


class NewSessionView(Answer, kw_only=True):
    id: str
    token: str
    expires_at: datetime
    user: UserView


class ConfirmedView(Answer, kw_only=True):
    id: str
    token: str
    confirmed_until: datetime
    expires_at: datetime


class ClientAccessView(Answer, kw_only=True):
    organization_id: str
    organization_name: str
    user_id: str
    user_organization_id: str
    email: str
    name: str
    role: str
    created_by: str
    created_at: datetime


class AccessRemoval(Answer, kw_only=True):
    user_id: str
    organization_id: str
    removed: bool


class SessionView(Answer, kw_only=True):
    id: str
    user_id: str
    created_at: datetime
    expires_at: datetime
    ip: str
    current: bool


class Removal(Answer, kw_only=True):
    id: str
    removed: bool


class InvitationView(Answer, kw_only=True):
    id: str
    organization_id: str
    email: str
    role: str
    status: str
    invited_by: str | None = None
    created_at: datetime
    expires_at: datetime
    settled_at: datetime | None = None


class NewInvitationView(InvitationView, kw_only=True):
    token: str


class PasswordChange(Answer, kw_only=True):
    user_id: str
    sessions_ended: int


class PasswordLink(Answer, kw_only=True):
    user_id: str
    token: str
    link: str
    expires_at: datetime
