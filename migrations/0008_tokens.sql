-- SPDX-License-Identifier: Apache-2.0
-- The tokens by which clients prove who they are (server/access/token_book.h).
-- Of a token's secret the row has only the SHA-256, whose first 12 digits are
-- the token's id. `role`: the numbers of server/access/rules.h. The CHECK
-- lists no known numbers, so a new role needs no migration.

CREATE TABLE tokens (
  number INTEGER PRIMARY KEY,  -- in the order in which they were made
  sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
  user TEXT NOT NULL CHECK (user <> ''),
  role INTEGER NOT NULL CHECK (role > 0),
  note TEXT NOT NULL,
  create_time_us INTEGER NOT NULL,
  expire_time_us INTEGER,    -- NULL: never
  last_use_time_us INTEGER,  -- to the minute; NULL: not used yet
  created_by TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX tokens_by_id ON tokens (substr(sha256, 1, 12));
