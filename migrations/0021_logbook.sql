-- SPDX-License-Identifier: Apache-2.0
-- The logbook (server/logbook): a record of each job that has ended, which
-- stays when the job is deleted, and entries that people write.

-- What searches look at, apart from the records' bodies, so that a walk through
-- 200,000 of them stays short. The columns behind `owner` are those of
-- server/logbook/record_fields.h. A record that is written anew gets the number
-- behind the greatest one, and what refers to the number follows.
CREATE TABLE records (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE CHECK (id <> ''),
  owner TEXT NOT NULL,
  end_time_us INTEGER NOT NULL,
  kind INTEGER, state INTEGER, verdict INTEGER,
  eval_loss REAL, best_loss REAL, train_loss REAL,
  steps INTEGER, batch INTEGER, attempts INTEGER, fallbacks INTEGER,
  pauses INTEGER, parameters INTEGER, row_count INTEGER, tokens INTEGER,
  peak_bytes INTEGER, swap_bytes INTEGER,
  queue_seconds REAL, load_seconds REAL, first_step_seconds REAL,
  step_seconds REAL, device_seconds REAL, pause_seconds REAL,
  name TEXT, model TEXT, device TEXT, reason TEXT, task TEXT, dtype TEXT,
  torch TEXT, version TEXT, build TEXT, platform TEXT, sweep TEXT,
  power TEXT, thermal TEXT, pressure TEXT, request TEXT, data TEXT
) STRICT;

CREATE INDEX records_by_owner ON records (owner);

-- A mpsd.v1.Record without number, notes and tags.
CREATE TABLE record_bodies (
  record INTEGER PRIMARY KEY REFERENCES records (number)
    ON DELETE CASCADE ON UPDATE CASCADE,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE record_metrics (
  record INTEGER NOT NULL REFERENCES records (number)
    ON DELETE CASCADE ON UPDATE CASCADE,
  name TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (record, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE record_labels (
  record INTEGER NOT NULL REFERENCES records (number)
    ON DELETE CASCADE ON UPDATE CASCADE,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (record, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE record_tags (
  tag TEXT NOT NULL CHECK (tag <> ''),
  record INTEGER NOT NULL REFERENCES records (number)
    ON DELETE CASCADE ON UPDATE CASCADE,
  PRIMARY KEY (tag, record)
) STRICT, WITHOUT ROWID;

CREATE INDEX record_tags_by_record ON record_tags (record);

CREATE TABLE record_notes (
  record INTEGER NOT NULL REFERENCES records (number)
    ON DELETE CASCADE ON UPDATE CASCADE,
  number INTEGER NOT NULL CHECK (number BETWEEN 1 AND 255),
  time_us INTEGER NOT NULL,
  author TEXT NOT NULL,
  text TEXT NOT NULL CHECK (text <> ''),
  rejected INTEGER NOT NULL CHECK (rejected IN (0, 1)),
  PRIMARY KEY (record, number)
) STRICT, WITHOUT ROWID;

-- The texts that people look for: those of record R at R * 256, its note N at
-- R * 256 + N, so that a search finds the latest records first and a new note
-- costs no more than itself.
CREATE TABLE record_text_rows (
  place INTEGER PRIMARY KEY,
  texts TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE record_texts USING fts5(
  texts, tokenize='trigram',
  content='record_text_rows', content_rowid='place');

-- What was seen of a job's attempts: mpsd.v1.RunAttempt. Goes with the job.
CREATE TABLE run_attempts (
  job_id TEXT NOT NULL,
  start_time_us INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, start_time_us)
) STRICT, WITHOUT ROWID;

-- Ends of jobs whose records are not written yet. The row comes in the
-- transaction that ends the job, so that no crash falls between the two.
CREATE TABLE unwritten_records (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice
  job_id TEXT NOT NULL UNIQUE
) STRICT;

-- SUCCEEDED, FAILED and CANCELLED.
CREATE TRIGGER jobs_to_record AFTER UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state AND NEW.state IN (3, 4, 5)
BEGIN
  DELETE FROM unwritten_records WHERE job_id = NEW.id;
  INSERT INTO unwritten_records (job_id) VALUES (NEW.id);
END;

CREATE TRIGGER jobs_recorded AFTER DELETE ON jobs
BEGIN
  DELETE FROM unwritten_records WHERE job_id = OLD.id;
  DELETE FROM run_attempts WHERE job_id = OLD.id;
END;

-- Jobs that ended before there was a logbook.
INSERT INTO unwritten_records (job_id)
SELECT id FROM jobs WHERE state IN (3, 4, 5)
ORDER BY coalesce(end_time_us, create_time_us), number;
