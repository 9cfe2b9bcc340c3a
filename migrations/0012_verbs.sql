-- SPDX-License-Identifier: Apache-2.0
-- What people do to jobs: hold them, move them, make them wait for others, pin
-- them, run them again. server/jobs/job.h has the meaning of the columns.

ALTER TABLE jobs ADD COLUMN held INTEGER NOT NULL DEFAULT 0
  CHECK (held IN (0, 1));
ALTER TABLE jobs ADD COLUMN hold_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
-- A JSON list of ids.
ALTER TABLE jobs ADD COLUMN after_jobs TEXT NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0
  CHECK (pinned IN (0, 1));
ALTER TABLE jobs ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0
  CHECK (stored_bytes >= 0);
ALTER TABLE jobs ADD COLUMN model TEXT NOT NULL DEFAULT '';

UPDATE jobs SET model = coalesce(json_extract(spec_json, '$.model_id'),
                                 json_extract(spec_json, '$.model'), '')
WHERE json_valid(spec_json);

-- As before, and SUCCEEDED -> QUEUED.
DROP TRIGGER jobs_transition;
CREATE TRIGGER jobs_transition BEFORE UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state
 AND NOT (OLD.state = 1 AND NEW.state IN (2, 4, 5))
 AND NOT (OLD.state = 2 AND NEW.state IN (1, 3, 4, 5))
 AND NOT (OLD.state IN (3, 4, 5) AND NEW.state = 1)
BEGIN
  SELECT RAISE(ABORT, 'a job cannot go from this state to that');
END;
