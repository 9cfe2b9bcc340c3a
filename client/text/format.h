// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_FORMAT_H_
#define MPSD_CLIENT_TEXT_FORMAT_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "mpsd/v1/jobs.pb.h"

// Formats numbers and times for people.
namespace mpsd::client {

std::string StateName(v1::JobState state);  // "QUEUED"
bool IsFinal(v1::JobState state);
// "training", "batch sweep", "smoke" …
std::string KindName(v1::JobKind kind);
bool IsStudy(v1::JobKind kind);

// "4.2s", "42s", "1m20s", "3h05m", "2d04h"; "-" for NaN, infinity and negative
// times.
std::string Seconds(double seconds);
std::string Bytes(int64_t bytes);  // "512 B", "12.3 MB"; powers of 1,000
std::string Count(double value);   // "1,234"
std::string Loss(double value);    // four decimals
absl::Time ToTime(const google::protobuf::Timestamp& time);
std::string DateTime(absl::Time time, absl::TimeZone zone);

// The number of columns that `text`, in UTF-8, takes on a screen: two for a
// wide character of East Asia and a picture, one for any other character.
int Width(const std::string& text);
// `text` cut to `columns`; a cut text ends in "…".
std::string Cut(const std::string& text, int columns);
// A text of a job, a user or a worker, on one line: line breaks and tabs become
// spaces, and characters that would steer the terminal are escaped
// (core/base/printable.h).
std::string Printable(std::string text);
// Printable(text), cut to `columns`; without UTF-8 with '?' for each character
// that is not ASCII.
std::string Fitted(const std::string& text, int columns, bool utf8);
// Like Printable, but keeps the lines; all but the first are indented.
std::string PrintableLines(const std::string& text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_FORMAT_H_
