-- SPDX-License-Identifier: Apache-2.0
-- Whose fault it was that attempts ended early (server/jobs/attempt_end.h),
-- what a job needs of the machine, and jobs that are tried again.

-- Interrupted attempts in a row, without a new checkpoint between them.
ALTER TABLE jobs ADD COLUMN interruptions INTEGER NOT NULL DEFAULT 0
  CHECK (interruptions >= 0);
-- 1: the job waits until every other job that may run has run.
ALTER TABLE jobs ADD COLUMN behind INTEGER NOT NULL DEFAULT 0
  CHECK (behind IN (0, 1));
-- The machine's boot id at the start of the last attempt; '': not known.
ALTER TABLE jobs ADD COLUMN boot_id TEXT NOT NULL DEFAULT '';
-- The highest step that a checkpoint held, and whether the last attempt wrote
-- one beyond those before it.
ALTER TABLE jobs ADD COLUMN durable_step INTEGER NOT NULL DEFAULT 0
  CHECK (durable_step >= 0);
ALTER TABLE jobs ADD COLUMN advanced INTEGER NOT NULL DEFAULT 0
  CHECK (advanced IN (0, 1));
-- Estimates made at Submit, in bytes; 0: not known.
ALTER TABLE jobs ADD COLUMN memory_bytes INTEGER NOT NULL DEFAULT 0
  CHECK (memory_bytes >= 0);
ALTER TABLE jobs ADD COLUMN checkpoint_bytes INTEGER NOT NULL DEFAULT 0
  CHECK (checkpoint_bytes >= 0);

-- QUEUED -> RUNNING | CANCELLED | FAILED (its row cannot be read), RUNNING ->
-- QUEUED | an end, FAILED | CANCELLED -> QUEUED.
DROP TRIGGER jobs_transition;
CREATE TRIGGER jobs_transition BEFORE UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state
 AND NOT (OLD.state = 1 AND NEW.state IN (2, 4, 5))
 AND NOT (OLD.state = 2 AND NEW.state IN (1, 3, 4, 5))
 AND NOT (OLD.state IN (4, 5) AND NEW.state = 1)
BEGIN
  SELECT RAISE(ABORT, 'a job cannot go from this state to that');
END;
