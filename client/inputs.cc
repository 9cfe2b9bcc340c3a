// SPDX-License-Identifier: Apache-2.0
#include "client/inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

absl::Status AddFile(const std::string& path, const fs::path& local,
                     PreparedJob& job) {
  for (const LocalFile& known : job.files) {
    if (known.path == path) return absl::OkStatus();
  }
  absl::StatusOr<std::string> hash = base::Sha256File(local);
  if (!hash.ok()) return hash.status();
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(local, error));
  if (error) return base::ErrnoStatus(error.value(), local.string());
  job.files.push_back({path, local, *std::move(hash), size});
  return absl::OkStatus();
}

absl::Status Missing(const std::string& field, const std::string& path,
                     const fs::path& local, const char* what) {
  return absl::NotFoundError(
      absl::StrCat(field, " names '", path, "', and there is no ", what, " ",
                   local.lexically_normal().string(),
                   ". Relative paths count from the folder of job.json."));
}

absl::Status AddData(const std::string& field, const std::string& path,
                     const fs::path& base, PreparedJob& job) {
  const fs::path local = base / path;
  std::error_code error;
  if (fs::is_regular_file(local, error)) return AddFile(path, local, job);
  if (fs::path(path).is_absolute() && !fs::exists(local, error)) {
    return absl::OkStatus();
  }
  return Missing(field, path, local, "file");
}

bool Hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(), [](const fs::path& p) {
    return absl::StartsWith(p.string(), ".");
  });
}

absl::Status AddAdapter(const std::string& adapter, const fs::path& base,
                        PreparedJob& job) {
  const fs::path folder = base / adapter;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    if (fs::path(adapter).is_absolute()) return absl::OkStatus();
    return Missing("adapter", adapter, folder, "folder");
  }
  std::vector<fs::path> relatives;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (!it->is_regular_file()) continue;
    const fs::path relative = it->path().lexically_relative(folder);
    if (!Hidden(relative)) relatives.push_back(relative);
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  std::sort(relatives.begin(), relatives.end());
  const char* slash = absl::EndsWith(adapter, "/") ? "" : "/";
  for (const fs::path& relative : relatives) {
    absl::Status status =
        AddFile(absl::StrCat(adapter, slash, relative.generic_string()),
                folder / relative, job);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool LooksLikePath(const std::string& model) {
  return absl::StartsWith(model, "./") || absl::StartsWith(model, "../") ||
         absl::StartsWith(model, "~");
}

absl::Status PlaceModel(const std::string& model, const fs::path& base,
                        PreparedJob& job) {
  if (fs::path(model).is_absolute()) return absl::OkStatus();
  std::error_code error;
  const fs::path local = fs::absolute(base / model, error).lexically_normal();
  if (!fs::is_directory(local, error)) {
    if (LooksLikePath(model)) return Missing("model", model, local, "folder");
    return absl::OkStatus();  // an id in the daemon's Hugging Face cache
  }
  auto spec = nlohmann::ordered_json::parse(job.spec_json);
  spec["model"] = local.string();
  job.spec_json = spec.dump(2);
  return absl::OkStatus();
}

absl::Status AddInputs(const spec::TrainSpec& spec, const fs::path& base,
                       PreparedJob& job) {
  const std::pair<const char*, const std::vector<std::string>&> sets[] = {
      {"dataset.train", spec.dataset.train},
      {"dataset.eval", spec.dataset.eval}};
  for (const auto& [field, paths] : sets) {
    for (const std::string& path : paths) {
      absl::Status status = AddData(field, path, base, job);
      if (!status.ok()) return status;
    }
  }
  if (!spec.adapter.empty()) {
    absl::Status status = AddAdapter(spec.adapter, base, job);
    if (!status.ok()) return status;
  }
  return PlaceModel(spec.model, base, job);
}

}  // namespace

absl::StatusOr<PreparedJob> PrepareJob(const fs::path& job_file) {
  absl::StatusOr<std::string> text = base::ReadFile(job_file);
  if (!text.ok()) return text.status();
  absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(*text, job_file.string());
  if (!spec.ok()) return spec.status();
  PreparedJob job;
  job.spec_json = *std::move(text);
  absl::Status status = AddInputs(*spec, job_file.parent_path(), job);
  if (!status.ok()) return status;
  return job;
}

}  // namespace mpsd::client
