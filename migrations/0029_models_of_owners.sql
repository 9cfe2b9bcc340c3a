-- SPDX-License-Identifier: Apache-2.0
-- An owner's last job with a model is found without reading the others.

DROP INDEX jobs_by_model;
CREATE INDEX jobs_by_model ON jobs (model, owner, state);
