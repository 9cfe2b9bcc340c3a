-- SPDX-License-Identifier: Apache-2.0
-- Ends of jobs that have not been announced (server/notify). The row comes in
-- the transaction that ends the job, so that no crash falls between the two.

CREATE TABLE ended_jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  state INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  message TEXT NOT NULL
) STRICT;

CREATE INDEX ended_jobs_by_job ON ended_jobs (job);

-- SUCCEEDED, FAILED and CANCELLED.
CREATE TRIGGER jobs_ended AFTER UPDATE OF state ON jobs
WHEN NEW.state <> OLD.state AND NEW.state IN (3, 4, 5)
BEGIN
  INSERT INTO ended_jobs (job, state, time_us, message)
  VALUES (NEW.number, NEW.state, coalesce(NEW.end_time_us, NEW.create_time_us),
          NEW.message);
END;
