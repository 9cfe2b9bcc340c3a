// SPDX-License-Identifier: Apache-2.0
#include "core/spec/field_edit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"

namespace mpsd::spec {
namespace {

using Json = nlohmann::ordered_json;

// The object that has the last part of `field`; null if it does not exist and
// `make` is not set. On error *fault says why.
Json* ParentOf(Json& root, const std::vector<std::string>& parts, bool make,
               std::string* fault) {
  Json* at = &root;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!at->contains(parts[i])) {
      if (!make) return nullptr;
      (*at)[parts[i]] = Json::object();
    }
    at = &(*at)[parts[i]];
    if (at->is_null() && make) *at = Json::object();
    if (!at->is_object()) {
      *fault = absl::StrCat("'", base::Quotable(parts[i]),
                            "' is not an object with fields");
      return nullptr;
    }
  }
  return at;
}

absl::StatusOr<std::vector<std::string>> PartsOf(const std::string& field) {
  std::vector<std::string> parts = absl::StrSplit(field, '.');
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    return absl::InvalidArgumentError(
        "expected the path of a field, training.learning_rate");
  }
  if (parts.size() > static_cast<size_t>(limits::kJsonDepth)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", parts.size(), " parts, at most ",
                     limits::kJsonDepth, " are allowed"));
  }
  return parts;
}

absl::Status CheckIsObject(const Json& spec) {
  if (spec.is_object()) return absl::OkStatus();
  return absl::InvalidArgumentError("the job's spec is not a JSON object");
}

}  // namespace

Json FieldValue(const std::string& text) {
  Json json = base::ParseTree<Json>(text);
  return json.is_discarded() ? Json(text) : json;
}

absl::Status SetField(Json& spec, const std::string& field, Json value) {
  RETURN_IF_ERROR(CheckIsObject(spec));
  ASSIGN_OR_RETURN(const auto parts, PartsOf(field));
  std::string fault;
  Json* parent = ParentOf(spec, parts, /*make=*/true, &fault);
  if (parent == nullptr) return absl::InvalidArgumentError(fault);
  (*parent)[parts.back()] = std::move(value);
  return absl::OkStatus();
}

absl::Status UnsetField(Json& spec, const std::string& field) {
  RETURN_IF_ERROR(CheckIsObject(spec));
  ASSIGN_OR_RETURN(const auto parts, PartsOf(field));
  std::string fault;
  Json* parent = ParentOf(spec, parts, /*make=*/false, &fault);
  if (parent == nullptr || parent->erase(parts.back()) == 0) {
    return absl::InvalidArgumentError(
        fault.empty() ? "the job does not set this field" : fault);
  }
  return absl::OkStatus();
}

}  // namespace mpsd::spec
