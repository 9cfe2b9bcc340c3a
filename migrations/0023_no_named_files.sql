-- SPDX-License-Identifier: Apache-2.0
-- Files that users sent by name went with the API that took them. The blobs
-- follow the rules of all others.
DROP TABLE named_files;
