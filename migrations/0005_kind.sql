-- SPDX-License-Identifier: Apache-2.0
-- What a job does with the device: the numbers of server/jobs/job_kind.h. The
-- rows of before are training. No list of the known numbers is checked here:
-- a kind that is added needs no migration, and the reader refuses the unknown.

ALTER TABLE jobs ADD COLUMN kind INTEGER NOT NULL DEFAULT 1
  CHECK (kind > 0);
