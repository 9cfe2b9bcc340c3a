-- SPDX-License-Identifier: Apache-2.0
-- The warnings of a job: a JSON list of texts, the same as in the job's events
-- that are warnings.

ALTER TABLE jobs ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
