-- SPDX-License-Identifier: Apache-2.0
-- The pulls of models that have not ended: a restart goes on with them.

CREATE TABLE pulls (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  revision TEXT NOT NULL,
  user TEXT NOT NULL,
  commit_hash TEXT NOT NULL,  -- empty: not known yet
  begin_time_us INTEGER NOT NULL,
  UNIQUE (id, revision)
) STRICT;
