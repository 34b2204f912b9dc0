-- A person lets an assistant ask in their name, with a preset. It stands until it ends, expires, or the person has another role.
CREATE TABLE assistants_grants (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  role TEXT NOT NULL,
  -- The address of the document that describes the assistant, its name there, and the address that the code was sent to.
  client_id TEXT NOT NULL,
  client_name TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  -- The address that its tokens are for, and the hash that whoever redeems the code proves to know the origin of.
  resource TEXT NOT NULL,
  challenge TEXT NOT NULL,
  preset TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  connected_at BIGINT,
  used_at BIGINT,
  ended_at BIGINT,
  ended_by TEXT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX assistants_grants_by_expiry ON assistants_grants (expires_at);
CREATE INDEX assistants_grants_unredeemed ON assistants_grants (created_at) WHERE connected_at IS NULL;

-- The code and the tokens of a grant, as hashes. Used ones stay until they expire, so that a second use is noticed.
CREATE TABLE assistants_tokens (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'code' OR kind = 'access' OR kind = 'refresh'),
  token_hash TEXT NOT NULL UNIQUE,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, grant_id) REFERENCES assistants_grants (organization_id, id)
);
CREATE INDEX assistants_tokens_by_grant ON assistants_tokens (organization_id, grant_id);
CREATE INDEX assistants_tokens_by_expiry ON assistants_tokens (expires_at);
