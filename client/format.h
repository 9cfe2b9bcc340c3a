// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_FORMAT_H_
#define MPSD_CLIENT_FORMAT_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/jobs.pb.h"

// Numbers and times as people read them.
namespace mpsd::client {

std::string StateName(v1::JobState state);  // "QUEUED"
bool IsFinal(v1::JobState state);

// "4.2s", "42s", "1m20s", "3h05m", "2d04h"; "-" for what is no such time.
std::string Seconds(double seconds);
std::string Bytes(int64_t bytes);  // "512 B", "12.3 MB"; powers of 1,000
std::string Count(double value);   // "1,234"
std::string Loss(double value);    // four decimals
absl::Time ToTime(const google::protobuf::Timestamp& time);
std::string DateTime(absl::Time time, absl::TimeZone zone);

// Columns that `text` takes on a screen, counting each UTF-8 character as one.
int Width(const std::string& text);
// `text` cut to `columns`, its last column "…" where something is missing.
std::string Cut(const std::string& text, int columns);
// `text` of a job, a user or a worker on one line: line breaks and tabs are
// spaces, what would steer the terminal is written out (core/base/printable.h).
std::string Printable(std::string text);
// Likewise with its lines, all but the first indented.
std::string PrintableLines(const std::string& text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_FORMAT_H_
