// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"

// What mpsctl prints, in words, columns and JSON: numbers and times, progress,
// tables, a caller's identity, the machine that jobs share with users.

namespace mpsd::client {

std::string StateName(v1::JobState state);  // "QUEUED"
// As users read the state: "PAUSED" for a RUNNING job that is halted.
std::string ShownState(const v1::Job& job);
bool IsFinal(v1::JobState state);
// The last 8 characters of a job's id, for tables: ids of one hour begin alike.
std::string ShortJobId(const std::string& id);
// The suffix of a waiting job: ", 2 ahead of it", or nothing.
std::string AheadText(const v1::Job& job);
// The short names of an enum's values, "QUEUED" …, without the unspecified one.
std::vector<std::string> ValueNames(
    const google::protobuf::EnumDescriptor& type);
// "training", "batch sweep", "smoke" …
std::string KindName(v1::JobKind kind);
bool IsStudy(v1::JobKind kind);

// "4.2s", "42s", "1m20s", "3h05m", "2d04h"; "-" for NaN, infinity and negative
// times.
std::string Seconds(double seconds);
std::string Seconds(absl::Duration time);
std::string Count(double value);  // "1,234"
// "1 file", "1,234 files".
std::string CountOf(int64_t count, const std::string& what);
// "12.3 %"
std::string Percent(double ratio, int decimals = 1, const char* unit = " %");
std::string OrDash(const std::string& text);  // "-" for an empty text
std::string Loss(double value);               // four decimals
absl::Time ToTime(const google::protobuf::Timestamp& time);
std::string DateTime(absl::Time time, absl::TimeZone zone);
std::string DateTime(const google::protobuf::Timestamp& time,
                     absl::TimeZone zone);

// The number of columns that `text`, in UTF-8, takes on a screen: two for a
// wide East Asian character and a picture, one for any other character.
int Width(const std::string& text);
// `text` cut to `columns`; a cut text ends in "…".
std::string Cut(const std::string& text, int columns);
// A text of a job, a user or a worker, on one line: line breaks and tabs become
// spaces, and characters that would control the terminal are escaped
// (core/base/text.h).
std::string Printable(std::string text);
// Printable(text), cut to `columns`; without UTF-8 with '?' for each character
// that is not ASCII.
std::string Fitted(const std::string& text, int columns, bool utf8);
// Like Printable, but keeps the lines; all but the first are indented.
std::string PrintableLines(const std::string& text);

// " 42% ━━━━━━━━──────────── <text>" in at most `columns` columns: the bar
// shrinks first, then the text is cut. `done` above `total` counts as full.
// Without UTF-8 the bar is "####----".
std::string Bar(int64_t done, int64_t total, const std::string& text,
                int columns, bool utf8);

// The last `columns` of `values`, a character each, from "▁" for the least to
// "█" for the greatest (without UTF-8 from '_' to '#'). Equal values are in the
// middle; a non-finite value is a space.
std::string Sparkline(const std::vector<double>& values, int columns,
                      bool utf8);

// A CSV line by RFC 4180, including its line break: numbers as JSON writes
// them, null as nothing, lists and objects as JSON. A text that a spreadsheet
// would take as a formula, because it begins with '=', '+', '-', '@' or a tab,
// is prefixed by an apostrophe: other users choose the names of jobs.
std::string CsvLine(const std::vector<nlohmann::ordered_json>& values);

// "resumes from step 12 of 20", "starts from step 0: it has no checkpoint".
std::string ResumeText(const v1::Job& job);

// What may help after a job has FAILED: the advice of its fault class.
std::string AdviceAfterFailure(const v1::Job& job);

// Rows under a header. Each column is as wide as its widest cell, with two
// spaces between columns; the last column is neither padded nor bounded.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // `cells`: as many as the header has; Add makes each printable.
  void Add(std::vector<std::string> cells);

  // Cuts lines longer than `columns`, but no last column to less than 16; 0
  // means no bound.
  void Print(std::ostream& out, int columns) const;

  // Indented by two, with all columns but the first aligned to the right.
  void PrintNumbers(std::ostream& out) const;

 private:
  std::vector<int> Widths() const;

  std::vector<std::vector<std::string>> rows_;
};

// `message` in Protocol Buffers' own JSON with the proto's names: fields that
// are 0 or empty are omitted, int64 and non-finite numbers are strings. The
// document of a run's page contains it.
std::string ProtoJson(const google::protobuf::Message& message);

// `message` in the JSON of mpsctl: the proto's snake_case names in the proto's
// order, numbers as numbers, states by their short name ("QUEUED"), times as
// RFC 3339 in UTC. Every field is present, with null for an absent one; a oneof
// shows only the field that is set. `spec_json` becomes `spec`, an object.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

std::string RoleName(v1::Role role);  // "admin"

// "90 days", or "47h05m" below two days. A minute that has begun counts, so
// that a new token of 90 days has 90.
std::string DaysText(absl::Duration left);

// "ann, user, by token 0a1b2c3d4e5f until 2026-12-01 (89 days)".
std::string IdentityText(const v1::WhoAmIResponse& who, absl::Time now);

// "until 2026-12-01 (89 days)"; with advice if it is about to expire or has
// expired.
std::string CertificateText(absl::Time expiry, absl::Time now);

// "battery 62%, heat nominal, memory pressure normal, 1.2 GiB swap …"; empty
// for a machine that reports nothing.
std::string HostText(const v1::HostReading& host);

// "PAUSED for 2m05s: on battery", "pausing: on battery" until the worker is
// halted, "paused: on battery" without a time; empty if nothing keeps the job
// from training.
std::string PauseText(const v1::Pause& pause, absl::Time now);

// "on battery or in Low Power Mode, too hot"; empty if nothing keeps the job
// from training.
std::string PauseReasonText(const v1::Pause& pause);

// "QUEUED, 2 ahead of it, the running job ends in about 1m20s", "PAUSED for
// 2m05s: quiet hours". `running_eta`: of the job that runs; empty: unknown.
std::string StatusText(const v1::Job& job, absl::Time now, absl::TimeZone zone,
                       const std::string& running_eta);

// "1h02m in total, 34s in the last of 4 attempts"; empty before the end.
std::string TookText(const v1::Job& job);

// "1.25 GiB current, 44.70 GiB limit, 1.75 GiB peak"; empty if nothing is
// known.
std::string MemoryText(const v1::DeviceMemory& memory);

// "aten::a 12 times, aten::b 1 time"; empty if no operator ran on the CPU.
std::string FallbackText(const v1::Progress& progress);

}  // namespace mpsd::client
