// SPDX-License-Identifier: Apache-2.0
#include "client/model_advice.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "core/base/json_depth.h"
#include "core/spec/hub_cache.h"

namespace mpsd::client {
namespace fs = std::filesystem;

std::string ModelNameOf(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(folder, error);
  if (error) real = fs::absolute(folder, error).lexically_normal();
  if (!real.has_filename()) real = real.parent_path();
  if (real.parent_path().filename() == "snapshots") {
    const fs::path repository = real.parent_path().parent_path().filename();
    const std::string id = spec::IdOfRepository(repository.string());
    if (!id.empty()) return id;
  }
  return real.filename().string();
}

std::string ModelAdvice(const std::string& spec_json,
                        const grpc::Status& status) {
  const bool of_model =
      status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
      absl::StartsWith(status.error_message(), "model: ");
  if (!of_model) return "";
  const auto spec = base::ParseTree<nlohmann::json>(spec_json);
  if (!spec.is_object()) return "";
  const auto model = spec.find("model");
  if (model == spec.end() || !model->is_string()) return "";
  const std::string folder = model->get<std::string>();
  std::error_code error;
  if (!fs::path(folder).is_absolute() ||
      !fs::is_regular_file(fs::path(folder) / "config.json", error)) {
    return "";
  }
  const std::string name = ModelNameOf(folder);
  return absl::StrCat("The folder is on this machine: send it with `mpsctl ",
                      "model push ", Printable(folder),
                      "`, and write \"model\": \"", Printable(name),
                      "\" into job.json.");
}

}  // namespace mpsd::client
