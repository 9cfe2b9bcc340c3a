-- SPDX-License-Identifier: Apache-2.0
-- How people moved a queued job, whether a job begins from scratch, and why the
-- daemon starts no job. server/jobs/job.h has the meaning of the columns.

ALTER TABLE jobs ADD COLUMN among_all INTEGER NOT NULL DEFAULT 0
  CHECK (among_all IN (0, 1));
ALTER TABLE jobs ADD COLUMN ticket TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0
  CHECK (fresh IN (0, 1));

-- At most one row: jobs start where there is none.
CREATE TABLE drain (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  why TEXT NOT NULL
) STRICT;
