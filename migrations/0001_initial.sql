-- SPDX-License-Identifier: Apache-2.0
-- Times are microseconds since 1970-01-01 UTC. Numbers of states and of event
-- kinds are those of server/jobs/job.h and server/store/job_row.cc; they are
-- never reused.

CREATE TABLE jobs (
  number INTEGER PRIMARY KEY,  -- what other tables refer to
  id TEXT NOT NULL UNIQUE CHECK (id <> ''),
  name TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
  owner TEXT NOT NULL,
  priority INTEGER NOT NULL,
  create_time_us INTEGER NOT NULL,
  start_time_us INTEGER,
  end_time_us INTEGER,
  not_before_us INTEGER,
  attempt INTEGER NOT NULL CHECK (attempt >= 0),
  failures INTEGER NOT NULL CHECK (failures >= 0),
  message TEXT NOT NULL,
  exit_reason TEXT,
  progress TEXT,  -- JSON, as in events.body
  eval_loss_before REAL,
  eval_loss_after REAL,
  train_loss REAL,
  adapter_path TEXT NOT NULL,
  spec_json TEXT NOT NULL,
  idempotency_key TEXT UNIQUE CHECK (idempotency_key <> ''),
  request_hash TEXT NOT NULL
) STRICT;

CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_owner ON jobs (owner, id);

-- QUEUED -> RUNNING | CANCELLED, RUNNING -> QUEUED | an end.
CREATE TRIGGER jobs_transition BEFORE UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state
 AND NOT (OLD.state = 1 AND NEW.state IN (2, 5))
 AND NOT (OLD.state = 2 AND NEW.state IN (1, 3, 4, 5))
BEGIN
  SELECT RAISE(ABORT, 'a job cannot go from this state to that');
END;

CREATE TABLE labels (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  key TEXT NOT NULL CHECK (key <> ''),
  value TEXT NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX labels_by_value ON labels (key, value, job);

CREATE TABLE events (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  time_us INTEGER NOT NULL,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
  body TEXT NOT NULL,  -- JSON
  PRIMARY KEY (job, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  step INTEGER NOT NULL CHECK (step >= 0),
  path TEXT NOT NULL,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  seconds REAL NOT NULL,
  create_time_us INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
  sha256 TEXT PRIMARY KEY NOT NULL
    CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  create_time_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
