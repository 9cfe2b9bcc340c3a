-- SPDX-License-Identifier: Apache-2.0
-- What a job does with the device: the numbers of server/jobs/job.h. Older
-- rows are training jobs. The CHECK lists no known numbers, so a new kind needs
-- no migration; the code that reads a row refuses an unknown number.

ALTER TABLE jobs ADD COLUMN kind INTEGER NOT NULL DEFAULT 1
  CHECK (kind > 0);
