-- SPDX-License-Identifier: Apache-2.0
-- Sweeps are ordinary jobs with a label (mpsctl sweep): those that mpsd made
-- keep their name, and their id where they have none, or share it.

INSERT OR IGNORE INTO labels (job, key, value)
SELECT jobs.number, 'sweep',
       CASE WHEN sweeps.name IS NULL OR sweeps.name = '' THEN jobs.sweep_id
            WHEN (SELECT count(*) FROM sweeps AS other
                  WHERE other.name = sweeps.name) > 1
            THEN substr(sweeps.name, 1, 48) || ' ' || jobs.sweep_id
            ELSE sweeps.name END
FROM jobs LEFT JOIN sweeps ON sweeps.id = jobs.sweep_id
WHERE jobs.sweep_id <> '';

INSERT OR IGNORE INTO record_labels (record, name, value)
SELECT records.number, 'sweep',
       coalesce((SELECT value FROM labels JOIN jobs ON jobs.number = labels.job
                 WHERE jobs.id = records.id AND key = 'sweep'), sweep)
FROM records WHERE sweep IS NOT NULL AND sweep <> '';

INSERT OR IGNORE INTO job_texts_changed
SELECT number FROM jobs WHERE sweep_id <> '';

-- QUEUED with a checkpoint of its rung: only its sweep would have sent it on.
UPDATE jobs SET held = 1, hold_reason =
  'at step ' || until_step || ', where its sweep was to decide: ' ||
  'release it to run it to its end, or cancel it'
WHERE state = 1 AND held = 0 AND fresh = 0 AND until_step > 0
  AND durable_step >= until_step;

DROP TRIGGER sweep_without_jobs;
DROP INDEX jobs_of_sweep;
DROP INDEX jobs_of_sweep_by_state;
DROP TABLE sweep_children;
DROP TABLE sweeps;
ALTER TABLE jobs DROP COLUMN sweep_id;
ALTER TABLE jobs DROP COLUMN until_step;
