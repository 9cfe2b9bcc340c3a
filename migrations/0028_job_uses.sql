-- SPDX-License-Identifier: Apache-2.0
-- The jobs whose files a job reads, as Submit resolved the paths of its spec,
-- and what those paths had then (server/store/job.h).

ALTER TABLE jobs ADD COLUMN input_stamps TEXT NOT NULL DEFAULT '';

CREATE TABLE job_uses (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  used INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  PRIMARY KEY (job, used)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_uses_by_used ON job_uses (used);

-- Of the jobs of before: each ".../jobs/ID/..." in a path of the spec, and
-- "job:ID" in place of one.
INSERT OR IGNORE INTO job_uses (job, used)
WITH RECURSIVE
  fields (field) AS (VALUES
    ('$.model'), ('$.adapter'), ('$.dataset.train'), ('$.dataset.eval'),
    ('$.dataset.predict'), ('$.training.chat_template_path')),
  paths (job, path) AS (
    SELECT jobs.number, each.value FROM jobs, fields, json_each(
      iif(json_valid(spec_json), spec_json, '{}'), field) AS each
    WHERE each.type = 'text' AND (instr(each.value, '/jobs/') > 0
                                  OR each.value LIKE 'job:%')),
  rests (job, rest) AS (
    SELECT job, substr(path, instr(path, '/jobs/') + 5) FROM paths
    WHERE instr(path, '/jobs/') > 0
    UNION ALL
    SELECT job, substr(rest, instr(rest, '/jobs/') + 5) FROM rests
    WHERE instr(rest, '/jobs/') > 0),
  named (job, id) AS (
    SELECT job, substr(rest, 2, 26) FROM rests
    WHERE substr(rest, 28, 1) IN ('', '/')
    UNION ALL SELECT job, substr(path, 5) FROM paths WHERE path LIKE 'job:%')
SELECT job, number FROM named JOIN jobs USING (id) WHERE number <> job;

-- What remains of jobs_naming_others: who waits for the end of another.
DROP INDEX jobs_naming_others;
CREATE INDEX jobs_waiting_for_others ON jobs (state, id, after_jobs)
WHERE state IN (1, 2) AND after_jobs <> '[]';
