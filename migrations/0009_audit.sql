-- SPDX-License-Identifier: Apache-2.0
-- Who asked for which change, and what became of it. The row of a call comes
-- before the call is carried out; its result comes after.

CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice
  time_us INTEGER NOT NULL,
  user TEXT NOT NULL,        -- '': a caller that was not known
  -- Numbers of server/access/rules.h.
  role INTEGER NOT NULL,
  way INTEGER NOT NULL,
  credential TEXT NOT NULL,  -- names one, but is no secret
  origin TEXT NOT NULL,
  method TEXT NOT NULL,
  job_id TEXT NOT NULL,      -- '': none; the job may be deleted by now
  detail TEXT NOT NULL,
  result INTEGER,  -- gRPC's status code; NULL: mpsd did not live to answer
  message TEXT NOT NULL
) STRICT;

CREATE INDEX audit_by_user ON audit (user, number);
CREATE INDEX audit_by_job ON audit (job_id, number) WHERE job_id <> '';
CREATE INDEX audit_by_time ON audit (time_us);
