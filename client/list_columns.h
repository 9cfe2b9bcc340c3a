// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LIST_COLUMNS_H_
#define MPSD_CLIENT_LIST_COLUMNS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// A job for a row.
struct ListRow {
  ListRow(const v1::Job& job, absl::Time now);

  const v1::Job& job;
  nlohmann::ordered_json json;  // as --json has it
  absl::Time now;
};

// A column of `mpsctl list`: a field of a job as `--json` names it, those of a
// message, of labels or of metrics behind a point ("progress.loss",
// "labels.team", "metrics.f1"), or one of the short names "step", "loss",
// "eval_loss" and "age".
class ListColumn {
 public:
  // InvalidArgument, naming the text and what it may be, for no column.
  static absl::StatusOr<ListColumn> Parse(const std::string& name);
  // Each name but those of labels and metrics, which have any.
  static std::vector<std::string> Names();

  const std::string& name() const { return name_; }
  std::string heading() const;  // of a table
  // What a person reads; "-" for a job without a value.
  std::string Cell(const ListRow& row, absl::TimeZone zone) const;
  // What a program reads; null for a job without a value.
  nlohmann::ordered_json Value(const ListRow& row) const;

 private:
  explicit ListColumn(std::string name) : name_(std::move(name)) {}

  std::string name_;
};

// What a person reads of a value of ToJson, by the name of its field; "" for
// none.
std::string FieldText(const std::string& field,
                      const nlohmann::ordered_json& value, absl::TimeZone zone);

// Those of the names, which commas divide.
absl::StatusOr<std::vector<ListColumn>> ParseColumns(const std::string& names);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LIST_COLUMNS_H_
