// The same two calls as a competent team would write them with Express and better-sqlite3: what Kontobahn is compared with.
//
// GET /v2/ledger-rewe-read/connections, free, and GET /v2/banking/transactions, paid with a credit that is reserved before and
// confirmed after, each in a durable transaction; for the holder of an API key, rate-limited, with a request id.
// Run as `node server.js DATABASE KEY [ROWS.json]`; it makes the database and prints `ready PORT`.

import { createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import express from "express";

const LIMIT = 1_000_000_000;
const WINDOW_SECONDS = 900;
const HASH_KEY = "a secret of the installation, as long as a hash";
const REQUEST_ID = /^[A-Za-z0-9_.-]{1,64}$/;
const COLUMNS = [
  "id", "account_id", "payment_id", "duplicated", "mode", "status", "made_on", "amount", "currency_code", "description",
  "description_parsed", "category", "extra", "created_at", "updated_at",
];

const [databasePath, key, rowsPath] = process.argv.slice(2);
const db = new Database(databasePath);
db.pragma("journal_mode = WAL");
db.pragma("synchronous = FULL");
db.exec(`
  CREATE TABLE api_keys (
    id TEXT PRIMARY KEY, organization_id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, expires_at TEXT, revoked_at TEXT
  );
  CREATE TABLE ledger_connections (
    organization_id TEXT NOT NULL, id TEXT NOT NULL, bezeichnung TEXT, status TEXT NOT NULL, verbunden_seit TEXT,
    erstellt_am TEXT NOT NULL, PRIMARY KEY (organization_id, id)
  );
  CREATE TABLE credit_accounts (
    organization_id TEXT PRIMARY KEY, available INTEGER NOT NULL, reserved INTEGER NOT NULL, spent INTEGER NOT NULL,
    last_line INTEGER NOT NULL
  );
  CREATE TABLE credit_holds (
    id TEXT PRIMARY KEY, organization_id TEXT NOT NULL, amount INTEGER NOT NULL, state TEXT NOT NULL, created_at TEXT NOT NULL
  );
  CREATE TABLE credit_movements (
    organization_id TEXT NOT NULL, line INTEGER NOT NULL, kind TEXT NOT NULL, amount INTEGER NOT NULL, hold_id TEXT NOT NULL,
    at TEXT NOT NULL, PRIMARY KEY (organization_id, line)
  );
  CREATE TABLE transactions (
    account_id INTEGER NOT NULL, id INTEGER NOT NULL, organization_id TEXT NOT NULL, payment_id TEXT, duplicated INTEGER NOT NULL,
    mode TEXT NOT NULL, status TEXT NOT NULL, made_on TEXT NOT NULL, amount TEXT NOT NULL, currency_code TEXT NOT NULL,
    description TEXT NOT NULL, description_parsed TEXT NOT NULL, category TEXT NOT NULL, extra TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (account_id, id)
  );
  CREATE INDEX transactions_by_day ON transactions (account_id, made_on, id);
`);

const tokenHash = (token) => createHmac("sha256", HASH_KEY).update(token).digest("hex");

function seed(rows) {
  const organizationId = randomUUID();
  const now = new Date().toISOString();
  db.prepare("INSERT INTO api_keys VALUES (?, ?, ?, NULL, NULL)").run(randomUUID(), organizationId, tokenHash(key));
  db.prepare("INSERT INTO credit_accounts VALUES (?, ?, 0, 0, 0)").run(organizationId, 1e12);
  const connection = db.prepare("INSERT INTO ledger_connections VALUES (?, ?, ?, 'connected', ?, ?)");
  for (let number = 0; number < 3; number++) {
    connection.run(organizationId, randomUUID(), `Muster GmbH ${number}`, now, now);
  }
  const names = [...COLUMNS, "organization_id"];
  const insert = db.prepare(
    `INSERT INTO transactions (${names.join(", ")}) VALUES (${names.map((name) => `@${name}`).join(", ")})`,
  );
  for (const row of rows) {
    insert.run({
      ...row,
      organization_id: organizationId,
      duplicated: row.duplicated ? 1 : 0,
      amount: String(row.amount),
      description_parsed: JSON.stringify(row.description_parsed),
      extra: JSON.stringify(row.extra),
    });
  }
}

db.transaction(seed)(rowsPath ? JSON.parse(readFileSync(rowsPath, "utf-8")) : []);

const findKey = db.prepare("SELECT id, organization_id, expires_at, revoked_at FROM api_keys WHERE token_hash = ?");
const listConnections = db.prepare(
  "SELECT id, bezeichnung, status, verbunden_seit, erstellt_am FROM ledger_connections WHERE organization_id = ?" +
    " ORDER BY erstellt_am, id",
);
const listTransactions = Object.fromEntries(
  [["made_on", "made_on, id"], ["id", "id"]].map(([sort, order]) => [
    sort,
    db.prepare(
      `SELECT ${COLUMNS.join(", ")} FROM transactions WHERE organization_id = ? AND account_id = ? AND id > ?` +
        ` ORDER BY ${order} LIMIT ?`,
    ),
  ]),
);
const take = db.prepare(
  "UPDATE credit_accounts SET available = available - 1, reserved = reserved + 1, last_line = last_line + 1" +
    " WHERE organization_id = ? AND available >= 1 RETURNING last_line",
);
const spend = db.prepare(
  "UPDATE credit_accounts SET reserved = reserved - 1, spent = spent + 1, last_line = last_line + 1" +
    " WHERE organization_id = ? RETURNING last_line",
);
const insertHold = db.prepare("INSERT INTO credit_holds VALUES (?, ?, 1, 'reserved', ?)");
const settleHold = db.prepare("UPDATE credit_holds SET state = 'confirmed' WHERE id = ?");
const insertMovement = db.prepare("INSERT INTO credit_movements VALUES (?, ?, ?, 1, ?, ?)");

const reserve = db.transaction((organizationId, holdId) => {
  const now = new Date().toISOString();
  const account = take.get(organizationId);
  if (!account) return false;
  insertMovement.run(organizationId, account.last_line, "reserve", holdId, now);
  insertHold.run(holdId, organizationId, now);
  return true;
});

const confirm = db.transaction((organizationId, holdId) => {
  settleHold.run(holdId);
  insertMovement.run(organizationId, spend.get(organizationId).last_line, "confirm", holdId, new Date().toISOString());
});

const windows = new Map();

function count(response, identity) {
  const now = performance.now() / 1000;
  let open = windows.get(identity);
  if (!open || open.endsAt <= now) {
    open = { endsAt: now + WINDOW_SECONDS, count: 0 };
    windows.set(identity, open);
  }
  open.count += 1;
  const reset = Math.max(1, Math.round(open.endsAt - now));
  response.set({
    "ratelimit-limit": String(LIMIT),
    "ratelimit-remaining": String(Math.max(0, LIMIT - open.count)),
    "ratelimit-reset": String(reset),
    "ratelimit-policy": `${LIMIT};w=${WINDOW_SECONDS}`,
  });
  return open.count <= LIMIT;
}

const app = express();
app.disable("x-powered-by");
app.disable("etag");

app.use((request, response, next) => {
  const given = request.get("x-request-id");
  response.set(
    "x-request-id",
    given && REQUEST_ID.test(given) ? given : `req_${randomUUID().replaceAll("-", "").slice(0, 20)}`,
  );
  const token = request.get("x-api-key");
  const found = token && findKey.get(tokenHash(token));
  if (!found || found.revoked_at || (found.expires_at && found.expires_at <= new Date().toISOString())) {
    return response.status(401).json({ error: "This API key is not valid." });
  }
  if (!count(response, found.id)) return response.status(429).json({ error: "Too many requests." });
  response.set({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  response.locals.organizationId = found.organization_id;
  next();
});

app.get("/v2/ledger-rewe-read/connections", (_request, response) => {
  response.json({ connections: listConnections.all(response.locals.organizationId) });
});

app.get("/v2/banking/transactions", (request, response) => {
  const { organizationId } = response.locals;
  const { account_id: account, from_id: from = "0", limit = "100", sort = "made_on" } = request.query;
  const wanted = [account, from, limit].map(Number);
  if (!wanted.every(Number.isInteger) || wanted[2] < 1 || wanted[2] > 1000 || !listTransactions[sort]) {
    return response.status(400).json({ error: "A parameter is not valid." });
  }
  const holdId = randomUUID();
  if (!reserve(organizationId, holdId)) return response.status(402).json({ error: "No credits are left." });
  const rows = listTransactions[sort].all(organizationId, ...wanted);
  const data = rows.map((row) => ({
    ...row,
    id: String(row.id),
    account_id: String(row.account_id),
    duplicated: row.duplicated === 1,
    amount: Number(row.amount),
    description_parsed: JSON.parse(row.description_parsed),
    extra: JSON.parse(row.extra),
  }));
  confirm(organizationId, holdId);
  response.json({ data });
});

const server = app.listen(0, "127.0.0.1", () => console.log(`ready ${server.address().port}`));
process.on("SIGTERM", () => process.exit(0));
