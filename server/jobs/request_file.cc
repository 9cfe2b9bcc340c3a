// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/request_file.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/base/small_file.h"

namespace mpsd::jobs {
namespace {

using Json = nlohmann::json;

constexpr size_t kLargestFile = 256 << 20;

// What `json` has under `name`, if it has the type; else what `value` is.
template <typename T>
void Take(const Json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) value = found->get<bool>();
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    if (found->is_number()) value = found->template get<double>();
  } else if constexpr (std::is_integral_v<T>) {
    if (found->is_number_integer()) value = found->get<T>();
  } else {
    if (found->is_string()) value = found->get<T>();
  }
}

std::optional<SubmitRequest> Decode(const std::string& text) {
  const Json json = base::ParseTree<Json>(text);
  if (!json.is_object()) return std::nullopt;
  SubmitRequest request;
  int kind = static_cast<int>(request.kind);
  Take(json, "kind", kind);
  request.kind = report::Numbered(kJobKinds, kind).value_or(request.kind);
  Take(json, "spec_json", request.spec_json);
  Take(json, "study_json", request.study_json);
  Take(json, "priority", request.priority);
  Take(json, "anyway", request.anyway);
  Take(json, "held", request.held);
  Take(json, "round_trip_seconds", request.round_trip_seconds);
  if (const auto all = json.find("inputs");
      all != json.end() && all->is_object()) {
    for (const auto& [path, sha256] : all->items()) {
      if (!sha256.is_string()) return std::nullopt;
      request.inputs.push_back({path, sha256.get<std::string>()});
    }
  }
  if (const auto all = json.find("labels");
      all != json.end() && all->is_object()) {
    for (const auto& [key, value] : all->items()) {
      if (!value.is_string()) return std::nullopt;
      request.labels[key] = value.get<std::string>();
    }
  }
  if (const auto all = json.find("after");
      all != json.end() && all->is_array()) {
    for (const Json& id : *all) {
      if (!id.is_string()) return std::nullopt;
      request.after.push_back(id.get<std::string>());
    }
  }
  if (request.spec_json.empty()) return std::nullopt;
  return request;
}

}  // namespace

std::string RequestFile::Encode(const SubmitRequest& request) {
  Json inputs = Json::object();
  for (const InputFile& input : request.inputs) {
    inputs[input.path] = input.sha256;
  }
  Json json = {{"kind", static_cast<int>(request.kind)},
               {"spec_json", request.spec_json},
               {"study_json", request.study_json},
               {"inputs", std::move(inputs)},
               {"priority", request.priority},
               {"labels", request.labels},
               {"anyway", request.anyway},
               {"held", request.held},
               {"after", request.after}};
  if (request.round_trip_seconds) {
    json["round_trip_seconds"] = *request.round_trip_seconds;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<SubmitRequest> RequestFile::Read(
    const std::filesystem::path& folder) {
  const std::string id = folder.filename().string();
  const absl::StatusOr<std::string> text =
      base::ReadSmallFile(folder / kFile, kLargestFile);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", id,
        " was made by a release of mpsd that kept no requests: take its spec "
        "(`mpsctl --json show ",
        id, "`) and submit that with the data"));
  }
  if (!text.ok()) return text.status();
  std::optional<SubmitRequest> request = Decode(*text);
  if (request) return *std::move(request);
  return absl::DataLossError(
      absl::StrCat((folder / kFile).string(), " makes no sense"));
}

}  // namespace mpsd::jobs
