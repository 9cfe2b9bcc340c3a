-- SPDX-License-Identifier: Apache-2.0
-- Which user sent which blob, or submitted a job with it. Rows go with their
-- blob. Blobs of before count for nobody until a job is submitted with them.

CREATE TABLE uploads (
  user TEXT NOT NULL,
  sha256 TEXT NOT NULL REFERENCES blobs (sha256) ON DELETE CASCADE,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  PRIMARY KEY (user, sha256)
) STRICT, WITHOUT ROWID;

CREATE INDEX uploads_by_blob ON uploads (sha256);

-- The sum of each user's rows, so that no upload adds up 50,000 of them.
CREATE TABLE upload_bytes (
  user TEXT PRIMARY KEY NOT NULL,
  size_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER uploads_added AFTER INSERT ON uploads
BEGIN
  INSERT INTO upload_bytes (user, size_bytes) VALUES (NEW.user, NEW.size_bytes)
  ON CONFLICT (user) DO UPDATE SET size_bytes = size_bytes + NEW.size_bytes;
END;

CREATE TRIGGER uploads_removed AFTER DELETE ON uploads
BEGIN
  UPDATE upload_bytes SET size_bytes = size_bytes - OLD.size_bytes
  WHERE user = OLD.user;
END;
