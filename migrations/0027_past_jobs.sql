-- SPDX-License-Identifier: Apache-2.0
-- Notes and tags of jobs, and what stays of a job that was deleted. All three
-- by the job's id, so that a deletion moves nothing.
CREATE TABLE job_notes (
  job_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  author TEXT NOT NULL,
  text TEXT NOT NULL CHECK (text <> ''),
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE job_tags (
  job_id TEXT NOT NULL,
  tag TEXT NOT NULL CHECK (tag <> ''),
  PRIMARY KEY (job_id, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_tags_by_tag ON job_tags (tag);

-- Written before the job's own row goes: of a job that is still there the row
-- does not count. The columns up to `labels` serve filters and orders.
CREATE TABLE past_jobs (
  id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  state INTEGER NOT NULL,
  create_time_us INTEGER NOT NULL,
  end_time_us INTEGER,
  eval_loss REAL,
  device_us INTEGER NOT NULL,
  name TEXT NOT NULL COLLATE NOCASE,  -- its beginning
  model TEXT NOT NULL,
  labels TEXT NOT NULL,  -- JSON
  texts TEXT NOT NULL,   -- what a search for a text looks at beside the notes
  body BLOB NOT NULL     -- a mpsd.v1.JobRecord without notes and tags
) STRICT;

CREATE INDEX past_jobs_by_owner ON past_jobs (owner);

CREATE TRIGGER past_jobs_deleted AFTER DELETE ON past_jobs
WHEN NOT EXISTS (SELECT 1 FROM jobs WHERE id = OLD.id)
BEGIN
  DELETE FROM job_notes WHERE job_id = OLD.id;
  DELETE FROM job_tags WHERE job_id = OLD.id;
END;

-- The former records. Their triggers first: without their tables no job could
-- end any more.
DROP TRIGGER jobs_to_record;
DROP TRIGGER jobs_recorded;

CREATE TRIGGER jobs_gone AFTER DELETE ON jobs
BEGIN
  DELETE FROM run_attempts WHERE job_id = OLD.id;
  -- Of a job whose record could not be written.
  DELETE FROM job_notes WHERE job_id = OLD.id
    AND NOT EXISTS (SELECT 1 FROM past_jobs WHERE id = OLD.id);
  DELETE FROM job_tags WHERE job_id = OLD.id
    AND NOT EXISTS (SELECT 1 FROM past_jobs WHERE id = OLD.id);
END;

INSERT INTO job_notes
SELECT r.id, n.number, n.time_us, n.author,
       iif(n.rejected, 'rejected: ' || n.text, n.text)
FROM record_notes AS n JOIN records AS r ON r.number = n.record;

INSERT INTO job_tags
SELECT r.id, t.tag
FROM record_tags AS t JOIN records AS r ON r.number = t.record;

-- The time of submission is the beginning of the id (a ULID). A record that
-- belonged to no job is named by its note.
INSERT INTO past_jobs
SELECT r.id, r.owner, coalesce(r.state, 0),
       (WITH RECURSIVE digits (at, value) AS (
          VALUES (1, 0) UNION ALL
          SELECT at + 1, value * 32 - 1 +
                 instr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(r.id, at, 1))
          FROM digits WHERE at <= 10)
        SELECT value * 1000 FROM digits WHERE at = 11),
       r.end_time_us, r.eval_loss,
       CAST(coalesce(r.device_seconds, 0) * 1e6 AS INTEGER),
       substr(coalesce(nullif(r.name, ''),
                       (SELECT text FROM job_notes WHERE job_id = r.id
                        ORDER BY number LIMIT 1), ''), 1, 60),
       coalesce(r.model, ''),
       (SELECT coalesce(json_group_object(name, value), '{}')
        FROM record_labels WHERE record = r.number),
       coalesce((SELECT texts FROM record_text_rows
                 WHERE place = r.number * 256), r.id),
       b.body
FROM records AS r JOIN record_bodies AS b ON b.record = r.number
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = r.id);

DROP TABLE record_texts;
DROP TABLE record_text_rows;
DROP TABLE record_notes;
DROP TABLE record_tags;
DROP TABLE record_labels;
DROP TABLE record_metrics;
DROP TABLE record_bodies;
DROP TABLE records;
DROP TABLE unwritten_records;

-- A search for a text looks at a job's notes, too.
DROP VIEW job_texts_source;
CREATE VIEW job_texts_source (number, id, owner, texts)
AS SELECT number, id, substr(owner, 1, 256),
          substr(name, 1, 256) || char(10) || substr(model, 1, 4096) ||
          char(10) || substr(message, 1, 8192) ||
          (SELECT coalesce(group_concat(char(10) || key || char(10) || value,
                                        ''), '')
           FROM labels WHERE job = number) ||
          (SELECT coalesce(group_concat(char(10) || text, ''), '')
           FROM job_notes WHERE job_id = id)
   FROM jobs;

CREATE TRIGGER job_texts_noted AFTER INSERT ON job_notes
BEGIN
  INSERT OR IGNORE INTO job_texts_changed
  SELECT number FROM jobs WHERE id = NEW.job_id;
END;

INSERT OR IGNORE INTO job_texts_changed
SELECT number FROM jobs WHERE id IN (SELECT job_id FROM job_notes);
