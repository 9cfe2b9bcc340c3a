-- SPDX-License-Identifier: Apache-2.0
-- Files that users sent by name, through the door of /v1/files: each is a blob
-- with a name. server/jobs/named_files.h has the meaning of the columns. The
-- blob is no foreign key: its row follows its file, and may be made anew.

CREATE TABLE named_files (
  id TEXT PRIMARY KEY NOT NULL,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  create_time_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX named_files_by_owner ON named_files (owner, id);
