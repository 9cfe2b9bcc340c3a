// SPDX-License-Identifier: Apache-2.0
#include "client/list_columns.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kAge[] = "age";
// Short names, each with its field.
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"step", "progress.step"},
    {"loss", "progress.loss"},
    {"eval_loss", "eval_loss_after"}};

// A list leaves these out.
constexpr std::string_view kNeverListed[] = {"spec_json", "warnings",
                                             "confusion_matrix_json"};

std::string FieldOf(const std::string& name) {
  for (const auto& [brief, field] : kShort) {
    if (name == brief) return std::string(field);
  }
  return name;
}

bool IsTime(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Timestamp";
}

bool HasFields(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !field.is_repeated() &&
         !IsTime(field);
}

// Adds the names of the message's fields that a cell has room for.
void AddNames(const Descriptor& type, const std::string& prefix,
              std::vector<std::string>& names) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name(field.name());
    if (prefix.empty() && std::count(std::begin(kNeverListed),
                                     std::end(kNeverListed), name) > 0) {
      continue;
    }
    if (HasFields(field)) {
      AddNames(*field.message_type(), absl::StrCat(prefix, name, "."), names);
    } else {
      names.push_back(prefix + name);
    }
  }
}

// Whether the name is that of an entry of a map ("labels.team").
bool IsOfMap(const std::string& name) {
  const std::vector<std::string> parts =
      absl::StrSplit(name, absl::MaxSplits('.', 1));
  const FieldDescriptor* field =
      v1::Job::descriptor()->FindFieldByName(parts[0]);
  return parts.size() == 2 && !parts[1].empty() && field != nullptr &&
         field->is_map();
}

// The value at a path; what is behind a map's name is the whole key, which may
// have points.
Json ValueAt(const Json& object, const std::string& path) {
  const Json* at = &object;
  std::string rest = path;
  while (at->is_object()) {
    if (const auto whole = at->find(rest); whole != at->end()) return *whole;
    const size_t point = rest.find('.');
    if (point == std::string::npos) return nullptr;
    const auto next = at->find(rest.substr(0, point));
    if (next == at->end()) return nullptr;
    at = &*next;
    rest = rest.substr(point + 1);
  }
  return nullptr;
}

std::string NumberText(const std::string& name, double value) {
  if (absl::EndsWith(name, "_bytes")) {
    return Bytes(static_cast<int64_t>(value));
  }
  if (absl::EndsWith(name, "_seconds")) return Seconds(value);
  if (absl::StrContains(name, "loss")) return Loss(value);
  return absl::StrCat(value);
}

std::string TimeText(const std::string& text, absl::TimeZone zone) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return text;
  return DateTime(time, zone);
}

std::string ListText(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& one : list) {
    texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  return absl::StrJoin(texts, ", ");
}

std::string ObjectText(const Json& object) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : object.items()) {
    texts.push_back(absl::StrCat(
        key, "=", value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return absl::StrJoin(texts, ", ");
}

double Age(const ListRow& row) {
  const absl::Duration age = row.now - ToTime(row.job.create_time());
  return std::max(0.0, absl::ToDoubleSeconds(age));
}

std::string StateText(const v1::Job& job) {
  const bool cancels = job.cancel_requested() && !IsFinal(job.state());
  return absl::StrCat(StateName(job.state()),
                      cancels                             ? " (cancelling)"
                      : job.held() || !job.hold().empty() ? " (held)"
                                                          : "");
}

}  // namespace

std::string FieldText(const std::string& field, const Json& value,
                      absl::TimeZone zone) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return NumberText(field, value.get<double>());
  if (value.is_number()) {
    return absl::EndsWith(field, "_bytes") ? Bytes(value.get<int64_t>())
                                           : value.dump();
  }
  if (value.is_array()) return ListText(value);
  if (value.is_object()) return ObjectText(value);
  const std::string text = value.get<std::string>();
  return absl::EndsWith(field, "_time") ? TimeText(text, zone) : text;
}

ListRow::ListRow(const v1::Job& job, absl::Time now)
    : job(job), json(ToJson(job)), now(now) {}

absl::StatusOr<ListColumn> ListColumn::Parse(const std::string& name) {
  const std::vector<std::string> names = Names();
  if (IsOfMap(name) || std::count(names.begin(), names.end(), name) > 0) {
    return ListColumn(name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--columns ", base::Quotable(name),
                   ": is no column; the columns are labels.NAME, metrics.NAME "
                   "and ",
                   absl::StrJoin(names, ", ")));
}

std::vector<std::string> ListColumn::Names() {
  std::vector<std::string> names;
  AddNames(*v1::Job::descriptor(), "", names);
  for (const auto& [brief, field] : kShort) names.emplace_back(brief);
  names.emplace_back(kAge);
  std::sort(names.begin(), names.end());
  return names;
}

std::string ListColumn::heading() const {
  return name_ == "eval_loss" ? "EVAL" : absl::AsciiStrToUpper(name_);
}

Json ListColumn::Value(const ListRow& row) const {
  if (name_ == kAge) return static_cast<int64_t>(Age(row));
  return ValueAt(row.json, FieldOf(name_));
}

std::string ListColumn::Cell(const ListRow& row, absl::TimeZone zone) const {
  const v1::Job& job = row.job;
  if (name_ == kAge) return Seconds(Age(row));
  if (name_ == "state") return StateText(job);
  if (name_ == "step") {
    if (!job.has_progress()) return "-";
    return absl::StrCat(job.progress().step(), "/",
                        job.progress().total_steps());
  }
  if (name_ == "name" && IsStudy(job.kind())) {
    return absl::StrCat(job.name(), job.name().empty() ? "" : " ", "(",
                        KindName(job.kind()), ")");
  }
  const std::string text = FieldText(FieldOf(name_), Value(row), zone);
  return text.empty() && name_ != "name" ? "-" : text;
}

absl::StatusOr<std::vector<ListColumn>> ParseColumns(const std::string& names) {
  std::vector<ListColumn> columns;
  for (const auto& name : absl::StrSplit(names, ',')) {
    absl::StatusOr<ListColumn> column =
        ListColumn::Parse(std::string(absl::StripAsciiWhitespace(name)));
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
  }
  return columns;
}

}  // namespace mpsd::client
