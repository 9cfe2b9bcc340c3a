-- SPDX-License-Identifier: Apache-2.0
-- What retention looks at (server/store/kept_jobs.h). Of stored_bytes: those of
-- the checkpoints, as measured last.

ALTER TABLE jobs ADD COLUMN stored_checkpoint_bytes INTEGER NOT NULL DEFAULT 0
  CHECK (stored_checkpoint_bytes >= 0);

-- All that the rules read, so that 100,000 jobs are read without their rows.
CREATE INDEX jobs_kept ON jobs (owner, end_time_us, number, state, pinned,
                                stored_bytes, stored_checkpoint_bytes)
WHERE state IN (3, 4, 5) AND end_time_us IS NOT NULL;

-- The few jobs that have not ended and may need another's files, or its end.
-- Paths in a job's own folder are its uploads.
CREATE INDEX jobs_naming_others ON jobs (number)
WHERE state IN (1, 2)
  AND (after_jobs <> '[]'
       OR instr(replace(spec_json, '/jobs/' || id || '/', ''), '/jobs/') > 0
       OR instr(spec_json, '"job:') > 0);
