-- SPDX-License-Identifier: Apache-2.0
-- Events of a sixth kind: what a model answers during its training.

CREATE TABLE events_with_samples (
  job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
  sequence INTEGER NOT NULL CHECK (sequence > 0),
  time_us INTEGER NOT NULL,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 6),
  body TEXT NOT NULL,  -- JSON
  PRIMARY KEY (job, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO events_with_samples SELECT * FROM events;
DROP TABLE events;
ALTER TABLE events_with_samples RENAME TO events;
