-- SPDX-License-Identifier: Apache-2.0
-- What is trained may be a whole model, and is judged by more than its loss.

ALTER TABLE jobs RENAME COLUMN adapter_path TO output_path;
-- 1 a PEFT adapter, 2 a whole model: server/jobs/job.h.
ALTER TABLE jobs ADD COLUMN output_kind INTEGER NOT NULL DEFAULT 1
  CHECK (output_kind IN (1, 2));
-- JSON, as metrics and all of an event's body of kind 3.
ALTER TABLE jobs ADD COLUMN metrics TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN best_evaluation TEXT;
-- JSON: core/wire/messages.h.
ALTER TABLE jobs ADD COLUMN confusion_matrix TEXT NOT NULL DEFAULT '';
