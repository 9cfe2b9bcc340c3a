// SPDX-License-Identifier: Apache-2.0
#include "client/spec_edit.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/spec/field_edit.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Invalid(const std::string& option, const std::string& text,
                     const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " '", text, "': ", what));
}

absl::Status Set(Json& spec, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) {
    return Invalid("--set", text, "expected FIELD=VALUE");
  }
  const absl::Status set = spec::SetField(
      spec, text.substr(0, equals), spec::FieldValue(text.substr(equals + 1)));
  return set.ok() ? set : Invalid("--set", text, std::string(set.message()));
}

absl::Status Unset(Json& spec, const std::string& field) {
  const absl::Status unset = spec::UnsetField(spec, field);
  return unset.ok() ? unset
                    : Invalid("--unset", field, std::string(unset.message()));
}

using Flat = std::vector<std::pair<std::string, std::string>>;

// Lists stay whole: their entries have no names. A tree that keeps the order of
// fields would look through all of them for each.
void Flatten(const nlohmann::json& json, const std::string& prefix,
             Flat& flat) {
  for (const auto& [key, value] : json.items()) {
    const std::string field =
        prefix.empty() ? key : absl::StrCat(prefix, ".", key);
    if (value.is_object() && !value.empty()) {
      Flatten(value, field, flat);
    } else {
      flat.emplace_back(field, value.dump());
    }
  }
}

Flat Flattened(const std::string& text) {
  Flat flat;
  const auto json = base::ParseTree<nlohmann::json>(text);
  if (json.is_object()) Flatten(json, "", flat);
  return flat;
}

std::string Normal(const std::string& path) {
  std::string normal =
      std::filesystem::path(path).lexically_normal().generic_string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

// Whether `named` has the path or a folder around it.
bool IsNamed(const std::set<std::string>& named, const std::string& path) {
  if (named.contains(path) || named.contains(".")) return true;
  for (size_t at = path.rfind('/'); at != std::string::npos && at > 0;
       at = path.rfind('/', at - 1)) {
    if (named.contains(path.substr(0, at))) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> EditSpec(const std::string& spec_json,
                                     const std::vector<std::string>& set,
                                     const std::vector<std::string>& unset) {
  if (set.empty() && unset.empty()) return spec_json;
  Json spec = base::ParseTree<Json>(spec_json);
  if (!spec.is_object()) {
    return absl::InvalidArgumentError("the job's spec is no JSON object");
  }
  for (const std::string& text : set) {
    if (absl::Status s = Set(spec, text); !s.ok()) return s;
  }
  for (const std::string& field : unset) {
    if (absl::Status s = Unset(spec, field); !s.ok()) return s;
  }
  return spec.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string WithDefaults(const std::string& spec_json) {
  const auto spec = spec::ParseTrainSpec(spec_json, "job.json");
  return spec.ok() ? spec::ToJson(*spec) : spec_json;
}

std::vector<FieldChange> CompareSpecs(const std::string& a,
                                      const std::string& b) {
  const Flat left = Flattened(a), right = Flattened(b);
  std::map<std::string, std::string> others(right.begin(), right.end());
  std::vector<FieldChange> changes;
  for (const auto& [field, value] : left) {
    const auto other = others.extract(field);
    const std::string theirs = other.empty() ? "" : other.mapped();
    if (value != theirs) changes.push_back({field, value, theirs});
  }
  for (const auto& [field, value] : right) {
    if (others.contains(field)) changes.push_back({field, "", value});
  }
  return changes;
}

void DropUnusedInputs(v1::SubmitRequest& request) {
  const auto spec = spec::ParseTrainSpec(request.spec_json(), "job.json");
  if (!spec.ok() || spec->task == spec::Task::kImageCls) return;
  std::set<std::string> named;
  spec::VisitPaths(*spec, [&](const char*, const std::string& path) {
    if (!path.empty()) named.insert(Normal(path));
  });
  auto& inputs = *request.mutable_inputs();
  const auto unused = std::remove_if(
      inputs.begin(), inputs.end(),
      [&](const auto& input) { return !IsNamed(named, Normal(input.path())); });
  inputs.erase(unused, inputs.end());
}

}  // namespace mpsd::client
