-- An agency's user may own connections of client organisations: both are found by the user alone.
CREATE UNIQUE INDEX users_by_id ON users (id);
CREATE INDEX banking_connections_by_user ON banking_connections (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX banking_connect_flows_by_user ON banking_connect_flows (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX banking_connections_reconnecting ON banking_connections (refresh_started_at) WHERE status = 'pending';
