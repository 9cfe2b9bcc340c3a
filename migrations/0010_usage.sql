-- SPDX-License-Identifier: Apache-2.0
-- The time that a job's attempts held the device, in microseconds.
ALTER TABLE jobs ADD COLUMN device_us INTEGER NOT NULL DEFAULT 0
  CHECK (device_us >= 0);

-- What each owner used of the device lately: `seconds` as of `time_us`. A
-- reader forgets half of them for each half-life since.
CREATE TABLE owner_use (
  owner TEXT PRIMARY KEY,
  seconds REAL NOT NULL CHECK (seconds >= 0),
  time_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
