-- SPDX-License-Identifier: Apache-2.0
-- Which jobs use which models: server/models/model_book.h.

CREATE INDEX jobs_by_model ON jobs (model, state);

-- When a job last started with the model that job.json calls so. The rows
-- outlive the jobs. Folders of the daemon's machine and results of jobs have
-- none.
CREATE TABLE model_starts (
  model TEXT NOT NULL PRIMARY KEY,
  time_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO model_starts (model, time_us)
SELECT model, max(start_time_us) FROM jobs
WHERE start_time_us IS NOT NULL AND model <> '' AND length(model) <= 128
  AND model NOT LIKE '/%' AND model NOT LIKE 'job:%'
GROUP BY model;

CREATE TRIGGER jobs_model_start AFTER UPDATE OF state ON jobs
WHEN NEW.state = 2 AND OLD.state <> 2 AND NEW.start_time_us IS NOT NULL
 AND NEW.model <> '' AND length(NEW.model) <= 128
 AND NEW.model NOT LIKE '/%' AND NEW.model NOT LIKE 'job:%'
BEGIN
  INSERT INTO model_starts (model, time_us)
  VALUES (NEW.model, NEW.start_time_us)
  ON CONFLICT (model) DO UPDATE SET time_us = max(time_us, excluded.time_us);
END;
