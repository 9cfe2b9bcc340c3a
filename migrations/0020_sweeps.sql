-- SPDX-License-Identifier: Apache-2.0
-- Sweeps (server/sweeps/sweep.h): how their jobs were made, and what was
-- decided about them. All else is in the jobs' rows.

CREATE TABLE sweeps (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE CHECK (id <> ''),
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  create_time_us INTEGER NOT NULL,
  plan TEXT NOT NULL,      -- JSON: server/sweeps/plan_json.h
  rungs INTEGER NOT NULL,  -- how many the plan has
  rung INTEGER NOT NULL DEFAULT 0 CHECK (rung BETWEEN 0 AND rungs),
  idempotency_key TEXT CHECK (idempotency_key <> ''),
  request_hash TEXT NOT NULL,
  UNIQUE (owner, idempotency_key)
) STRICT;

-- A child outlives its job, as long as the sweep has another one.
CREATE TABLE sweep_children (
  sweep INTEGER NOT NULL REFERENCES sweeps (number) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  job_id TEXT NOT NULL,
  assigned TEXT NOT NULL,  -- a JSON array of JSON texts
  rung INTEGER NOT NULL DEFAULT 0,
  out_message TEXT NOT NULL DEFAULT '',
  metric REAL,
  dropped INTEGER NOT NULL DEFAULT 0 CHECK (dropped IN (0, 1)),
  PRIMARY KEY (sweep, position)
) STRICT, WITHOUT ROWID;

-- Which sweeps go on, without the jobs' wide rows.
CREATE INDEX jobs_of_sweep_by_state ON jobs (sweep_id, state)
WHERE sweep_id <> '';

-- Newest first, of one owner.
CREATE INDEX sweeps_of_owner ON sweeps (owner, id);

-- A sweep goes with the last of its jobs.
CREATE TRIGGER sweep_without_jobs AFTER DELETE ON jobs
WHEN OLD.sweep_id <> ''
BEGIN
  DELETE FROM sweeps WHERE id = OLD.sweep_id AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE sweep_id = OLD.sweep_id AND sweep_id <> '');
END;
