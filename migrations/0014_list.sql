-- SPDX-License-Identifier: Apache-2.0
-- What `mpsctl list` filters by and sorts by, apart from the wide rows of jobs,
-- so that a look at 100,000 jobs reads 12 MB and not their specs. Only triggers
-- write job_list.

CREATE VIEW job_list_source
  (number, id, state, owner, priority, create_time_us, end_time_us, eval_loss,
   device_us, stored_bytes, pinned, held, name, model)
AS SELECT number, id, state, owner, priority, create_time_us, end_time_us,
          eval_loss_after, device_us, stored_bytes, pinned, held,
          substr(name, 1, 60), model
   FROM jobs;

CREATE TABLE job_list (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  state INTEGER NOT NULL,
  owner TEXT NOT NULL,
  priority INTEGER NOT NULL,
  create_time_us INTEGER NOT NULL,
  end_time_us INTEGER,
  eval_loss REAL,
  device_us INTEGER NOT NULL,
  stored_bytes INTEGER NOT NULL,
  pinned INTEGER NOT NULL,
  held INTEGER NOT NULL,
  name TEXT NOT NULL COLLATE NOCASE,  -- its beginning
  model TEXT NOT NULL
) STRICT;

-- A list without a filter walks along one of these.
CREATE INDEX job_list_by_end_time ON job_list (end_time_us);
CREATE INDEX job_list_by_name ON job_list (name);
CREATE INDEX job_list_by_owner ON job_list (owner);
CREATE INDEX job_list_by_state ON job_list (state);
CREATE INDEX job_list_by_priority ON job_list (priority);
CREATE INDEX job_list_by_eval_loss ON job_list (eval_loss);
CREATE INDEX job_list_by_device_time ON job_list (device_us);
CREATE INDEX job_list_by_stored_bytes ON job_list (stored_bytes);

CREATE TRIGGER job_list_inserted AFTER INSERT ON jobs
BEGIN
  INSERT INTO job_list SELECT * FROM job_list_source WHERE number = NEW.number;
END;

-- Each step of a training job updates its row; few of them change the list, and
-- most of those the time on the device alone.
CREATE TRIGGER job_list_updated AFTER UPDATE ON jobs
WHEN NEW.state <> OLD.state OR NEW.end_time_us IS NOT OLD.end_time_us
  OR NEW.eval_loss_after IS NOT OLD.eval_loss_after
  OR NEW.stored_bytes <> OLD.stored_bytes
  OR NEW.pinned <> OLD.pinned OR NEW.held <> OLD.held
  OR NEW.priority <> OLD.priority OR NEW.name <> OLD.name
  OR NEW.owner <> OLD.owner OR NEW.model <> OLD.model
BEGIN
  REPLACE INTO job_list SELECT * FROM job_list_source WHERE number = NEW.number;
END;

CREATE TRIGGER job_list_charged AFTER UPDATE ON jobs
WHEN NEW.device_us <> OLD.device_us
BEGIN
  UPDATE job_list SET device_us = NEW.device_us WHERE number = NEW.number;
END;

-- The texts that people look for. Trigrams find each part of them that has
-- three characters or more, upper and lower case alike.
CREATE VIEW job_texts_source (number, id, owner, texts)
AS SELECT number, id, substr(owner, 1, 256),
          substr(name, 1, 256) || char(10) || substr(model, 1, 4096) ||
          char(10) || substr(message, 1, 8192) ||
          (SELECT coalesce(group_concat(char(10) || key || char(10) || value,
                                        ''), '')
           FROM labels WHERE job = number)
   FROM jobs;

CREATE TABLE job_text_rows (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  owner TEXT NOT NULL,
  texts TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE job_texts USING fts5(
  id, owner, texts, tokenize='trigram',
  content='job_text_rows', content_rowid='number');

-- A trigger may not write job_texts (PRAGMA trusted_schema): it notes whose
-- texts have changed, and the program writes them in the same transaction.
CREATE TABLE job_texts_changed (number INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER job_texts_inserted AFTER INSERT ON jobs
BEGIN
  INSERT OR IGNORE INTO job_texts_changed VALUES (NEW.number);
END;

CREATE TRIGGER job_texts_updated AFTER UPDATE ON jobs
WHEN NEW.name <> OLD.name OR NEW.owner <> OLD.owner OR NEW.model <> OLD.model
  OR NEW.message <> OLD.message
BEGIN
  INSERT OR IGNORE INTO job_texts_changed VALUES (NEW.number);
END;

CREATE TRIGGER job_list_deleted AFTER DELETE ON jobs
BEGIN
  DELETE FROM job_list WHERE number = OLD.number;
  INSERT OR IGNORE INTO job_texts_changed VALUES (OLD.number);
END;

INSERT INTO job_list SELECT * FROM job_list_source;
INSERT INTO job_text_rows SELECT * FROM job_texts_source;
INSERT INTO job_texts (job_texts) VALUES ('rebuild');
