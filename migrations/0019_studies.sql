-- SPDX-License-Identifier: Apache-2.0
-- Studies, and the children of sweeps (server/jobs/job.h). Older rows are
-- training jobs of no sweep.

ALTER TABLE jobs ADD COLUMN study_json TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN sweep_id TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN until_step INTEGER NOT NULL DEFAULT 0
  CHECK (until_step >= 0);

CREATE INDEX jobs_of_sweep ON jobs (sweep_id, number) WHERE sweep_id <> '';

-- A study's result is a kind of its own (report::OutputKind). The old column's
-- CHECK listed the kinds there were; the new one does not, so that a new kind
-- needs no migration.
ALTER TABLE jobs ADD COLUMN result_kind INTEGER NOT NULL DEFAULT 1
  CHECK (result_kind > 0);
UPDATE jobs SET result_kind = output_kind WHERE output_kind <> 1;
ALTER TABLE jobs DROP COLUMN output_kind;
ALTER TABLE jobs RENAME COLUMN result_kind TO output_kind;
