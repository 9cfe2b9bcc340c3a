-- SPDX-License-Identifier: Apache-2.0
-- A pull ends with mpsd. The bytes that each user's pulls wrote count among the
-- user's uploads until the model is removed.

DROP TABLE pulls;

CREATE TABLE pulled_bytes (
  user TEXT NOT NULL,
  model TEXT NOT NULL,
  size_bytes INTEGER NOT NULL CHECK (size_bytes >= 0),
  PRIMARY KEY (user, model)
) STRICT, WITHOUT ROWID;
