// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RECORD_TEXT_H_
#define MPSD_CLIENT_RECORD_TEXT_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "mpsd/v1/logbook.pb.h"

namespace mpsd::client {

// One thing that a record tells, in words; an empty value was not told.
struct RecordRow {
  std::string name, value;
};
struct RecordSection {
  std::string title;  // "ENVIRONMENT"
  std::vector<RecordRow> rows;
};

// What stands in the place of a value that was not told.
inline constexpr char kNotTold[] = "not told";

// The parts of a record, without notes, tags and the spec: the run, its
// environment, shape, memory, fallbacks, data, conditions, durations and
// results. Rows whose absence tells something are there without a value; others
// are left out. Texts are printable and on one line.
std::vector<RecordSection> DescribeRecord(const v1::Record& record,
                                          absl::TimeZone zone);

// "training", "smoke" …; "note" for an entry that was written by hand.
std::string RecordKindName(const v1::Record& record);
// The name, or the beginning of the first note of an entry.
std::string RecordTitle(const v1::Record& record);
// "-" for a verdict that was not told: "pass", "warn", "fail".
std::string RecordVerdict(const v1::Record& record);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RECORD_TEXT_H_
