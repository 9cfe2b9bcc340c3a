-- SPDX-License-Identifier: Apache-2.0
-- A database as mpsd of schema version 1 left it: kept as it is, for the tests
-- of every later migration.
PRAGMA application_id=1836086116;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE blobs (
  sha256 TEXT PRIMARY KEY NOT NULL
    CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  create_time_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "blobs" VALUES('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',0,1700000000000000);
CREATE TABLE checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  step INTEGER NOT NULL CHECK (step >= 0),
  path TEXT NOT NULL,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  seconds REAL NOT NULL,
  create_time_us INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;
INSERT INTO "checkpoints" VALUES(1,2,'/state/jobs/1/checkpoints/step-2',1000,0.5,1700000003000000);
CREATE TABLE events (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  time_us INTEGER NOT NULL,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
  body TEXT NOT NULL,  -- JSON
  PRIMARY KEY (job, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO "events" VALUES(1,1,1700000000000000,1,'{"message":"","state":1}');
INSERT INTO "events" VALUES(1,2,1700000001000000,1,'{"message":"","state":2}');
INSERT INTO "events" VALUES(1,3,1700000002000000,2,'{"step":1,"total_steps":2,"loss":2.0,"device":"cpu"}');
INSERT INTO "events" VALUES(1,4,1700000003000000,4,'{"step":2,"path":"/state/jobs/1/checkpoints/step-2","size_bytes":1000,"seconds":0.5,"create_time_us":1700000003000000}');
INSERT INTO "events" VALUES(1,5,1700000009000000,1,'{"message":"","state":3}');
INSERT INTO "events" VALUES(2,1,1700000002000000,1,'{"message":"","state":1}');
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
INSERT INTO "jobs" VALUES(1,'01J00000000000000000000001','sentiment',3,0,'ana',5,1700000000000000,1700000001000000,1700000009000000,NULL,1,0,'','Done','{"step":2,"total_steps":2,"loss":1.5,"device":"cpu","footprint_bytes":4096}',2.5,1.25,1.75,'/state/jobs/1/adapter','{"model":"m"}',NULL,'h1');
INSERT INTO "jobs" VALUES(2,'01J00000000000000000000002','',1,0,'',0,1700000002000000,NULL,NULL,NULL,0,0,'',NULL,NULL,NULL,NULL,NULL,'','{}','k2','h2');
CREATE TABLE labels (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  key TEXT NOT NULL CHECK (key <> ''),
  value TEXT NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "labels" VALUES(1,'team','nlp');
CREATE INDEX jobs_by_state ON jobs (state, id);
CREATE INDEX jobs_by_owner ON jobs (owner, id);
CREATE TRIGGER jobs_transition BEFORE UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state
 AND NOT (OLD.state = 1 AND NEW.state IN (2, 5))
 AND NOT (OLD.state = 2 AND NEW.state IN (1, 3, 4, 5))
BEGIN
  SELECT RAISE(ABORT, 'a job cannot go from this state to that');
END;
CREATE INDEX labels_by_value ON labels (key, value, job);
COMMIT;
