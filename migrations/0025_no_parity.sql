-- SPDX-License-Identifier: Apache-2.0
-- Jobs of kind 7, which compared the numbers of two devices, become device
-- comparisons (kind 4), which do so now. Those that had not ended end here.

-- Event 1 is a change of the state, state 5 CANCELLED.
INSERT INTO events (job, sequence, time_us, kind, body)
SELECT number,
       coalesce((SELECT max(sequence) FROM events WHERE job = number), 0) + 1,
       CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER), 1,
       json_object('state', 5, 'message',
                   'parity is no job of its own any more: `mpsctl '
                   || 'compare-devices JOB` compares losses and metrics')
FROM jobs WHERE kind = 7 AND state IN (1, 2);

UPDATE jobs SET
  state = 5,
  end_time_us =
    CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
  message = 'parity is no job of its own any more: `mpsctl compare-devices '
            || 'JOB` compares losses and metrics'
WHERE kind = 7 AND state IN (1, 2);

UPDATE jobs SET kind = 4, study_json = '{}' WHERE kind = 7;
UPDATE records SET kind = 4 WHERE kind = 7;
