-- SPDX-License-Identifier: Apache-2.0
-- A job may train a whole model, and an evaluation has metrics beside its loss.

ALTER TABLE jobs RENAME COLUMN adapter_path TO output_path;
-- 1 a PEFT adapter, 2 a whole model: server/jobs/job.h.
ALTER TABLE jobs ADD COLUMN output_kind INTEGER NOT NULL DEFAULT 1
  CHECK (output_kind IN (1, 2));
-- JSON: the metrics, and the whole body of an event of kind 3.
ALTER TABLE jobs ADD COLUMN metrics TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN best_evaluation TEXT;
-- JSON: core/wire/messages.h.
ALTER TABLE jobs ADD COLUMN confusion_matrix TEXT NOT NULL DEFAULT '';
