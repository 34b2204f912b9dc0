-- People work in clients by an access of their own. Until now everybody of an agency could do in a client what they could do at home, as soon
-- as any key named the client. Of that each keeps what the valid keys may do, and nobody gets more than they had.
CREATE TABLE client_access (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  client_organization_id TEXT NOT NULL REFERENCES organizations (id),
  role TEXT NOT NULL CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin'),
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, client_organization_id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX client_access_by_client ON client_access (client_organization_id);
INSERT INTO client_access (organization_id, user_id, client_organization_id, role, created_by, created_at)
  SELECT organization_id, user_id, client_organization_id,
    CASE LEAST(own, theirs) WHEN 3 THEN 'admin' WHEN 2 THEN 'member' WHEN 1 THEN 'bookkeeping' ELSE 'read_only' END, 'system', CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT)
  FROM (
    SELECT u.organization_id AS organization_id, u.id AS user_id, a.client_organization_id AS client_organization_id,
      CASE u.role WHEN 'owner' THEN 3 WHEN 'admin' THEN 3 WHEN 'member' THEN 2 WHEN 'bookkeeping' THEN 1 ELSE 0 END AS own,
      MAX(CASE
        WHEN k.scopes IS NULL AND (k.role = 'admin' OR k.role = 'owner') THEN 3
        WHEN k.scopes IS NULL AND k.role = 'member' THEN 2
        WHEN ' ' || k.scopes || ' ' LIKE '% payments %' THEN 2
        WHEN k.scopes LIKE '%:write%' THEN 1
        ELSE 0 END) AS theirs
    FROM users u
    JOIN agency_clients a ON a.organization_id = u.organization_id AND a.client_organization_id <> u.organization_id
    JOIN api_keys k ON k.organization_id = a.organization_id AND k.id = a.key_id
    WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT))
    GROUP BY u.organization_id, u.id, u.role, a.client_organization_id
  ) AS before;
