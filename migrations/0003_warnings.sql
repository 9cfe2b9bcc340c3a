-- SPDX-License-Identifier: Apache-2.0
-- What is amiss with a job that goes on: a JSON list of texts, as the notes
-- among its events that are warnings.

ALTER TABLE jobs ADD COLUMN warnings TEXT NOT NULL DEFAULT '[]';
