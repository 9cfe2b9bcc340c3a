-- SPDX-License-Identifier: Apache-2.0
-- Idempotency keys belong to their owner: two owners may choose the same one.
-- The old column takes no key any more, but stays: SQLite removes no column
-- that is UNIQUE.

ALTER TABLE jobs ADD COLUMN owner_key TEXT CHECK (owner_key <> '');

UPDATE jobs SET owner_key = idempotency_key, idempotency_key = NULL
WHERE idempotency_key IS NOT NULL;

CREATE UNIQUE INDEX jobs_by_owner_key ON jobs (owner, owner_key)
WHERE owner_key IS NOT NULL;
