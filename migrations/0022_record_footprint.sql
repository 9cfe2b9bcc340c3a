-- SPDX-License-Identifier: Apache-2.0
-- What records tell besides: the most memory of the worker's process, and how
-- long a call of the client that submitted the job took.
ALTER TABLE records ADD COLUMN footprint_bytes INTEGER;
ALTER TABLE records ADD COLUMN round_trip_seconds REAL;
