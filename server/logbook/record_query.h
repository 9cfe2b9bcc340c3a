// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_RECORD_QUERY_H_
#define MPSD_SERVER_LOGBOOK_RECORD_QUERY_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/logbook/record_fields.h"

namespace mpsd::logbook {

enum class Comparison {
  kEqual,
  kNotEqual,
  kContains,  // a text that has another as a part, in either case
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};

// One term of a query: a field, a metric or a label, and what its value is held
// against.
struct Condition {
  enum class Of { kField, kMetric, kLabel };
  Of of = Of::kField;
  const RecordField* field = nullptr;  // of a field: one of the tables
  std::string name;                    // of a metric or a label
  Comparison comparison = Comparison::kEqual;
  FieldValue value;  // never monostate; a text for kContains
};

// What SearchRecordsRequest.query asks for; every part has to hold.
struct RecordQuery {
  std::vector<Condition> conditions;
  std::vector<std::string> texts;  // each of 3 characters at least
  std::vector<std::string> tags;
  std::optional<absl::Time> since, until;  // of the end; until is exclusive
};

// The most terms of a query, and the most texts among them: each costs a look
// at many records.
inline constexpr size_t kQueryTerms = 16;
inline constexpr size_t kQueryTexts = 6;
// The fewest characters of a text, which the index of trigrams can find.
inline constexpr size_t kLeastText = 3;

// Reads a query as mpsd/v1/logbook.proto describes it. InvalidArgument for
// another text: "query:<column>: <what is wrong and was expected>", where the
// first character has column 1. `now`: what since:30d counts from.
absl::StatusOr<RecordQuery> ParseRecordQuery(std::string_view text,
                                             absl::Time now);

// Whether `tag` is one: 1 to limits::kRecordTagBytes letters, digits and
// "._-+/@".
bool IsTag(std::string_view tag);

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_RECORD_QUERY_H_
