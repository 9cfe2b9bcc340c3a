// SPDX-License-Identifier: Apache-2.0
#include "client/inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/spec/idle_fields.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

absl::Status Missing(const std::string& field, const std::string& path,
                     const fs::path& local, const char* what) {
  return absl::NotFoundError(absl::StrCat(
      field, " names '", path, "', and there is no ", what, " ",
      local.lexically_normal().string(),
      ". Relative paths are resolved from the folder of job.json."));
}

bool Hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(), [](const fs::path& p) {
    return absl::StartsWith(p.string(), ".");
  });
}

// The regular files below `folder`, relative to it; hidden files are omitted.
absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> relatives;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (!it->is_regular_file()) continue;
    const fs::path relative = it->path().lexically_relative(folder);
    if (!Hidden(relative)) relatives.push_back(relative);
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  std::sort(relatives.begin(), relatives.end());
  return relatives;
}

// Collects the files that a spec names, each once.
class Collector {
 public:
  Collector(const spec::TrainSpec& spec, const fs::path& base, PreparedJob& job)
      : spec_(spec), base_(base), job_(job) {}

  absl::Status Run() {
    const spec::DatasetSpec& dataset = spec_.dataset;
    const std::pair<const char*, const std::vector<std::string>&> sets[] = {
        {"dataset.train", dataset.train},
        {"dataset.eval", dataset.eval},
        {"dataset.predict", dataset.predict}};
    for (const auto& [field, paths] : sets) {
      for (const std::string& path : paths) {
        RETURN_IF_ERROR(AddData(field, path));
      }
    }
    absl::Status status = AddPlace("adapter", spec_.adapter);
    if (status.ok()) status = AddChatTemplate();
    if (!status.ok() || job_.files.size() <= limits::kInputs) return status;
    return absl::InvalidArgumentError(absl::StrCat(
        "the job names ", job_.files.size(), " files, more than the ",
        limits::kInputs,
        " that can be uploaded: put the images into one .safetensors file, or "
        "onto the daemon's machine and give its absolute path there"));
  }

 private:
  bool images() const { return spec_.task == spec::Task::kImageCls; }

  absl::Status AddFile(const std::string& path, const fs::path& local) {
    if (!known_.insert(path).second) return absl::OkStatus();
    job_.files.push_back({path, local, "", 0});
    return absl::OkStatus();
  }

  absl::Status AddFolder(const std::string& path, const fs::path& folder) {
    ASSIGN_OR_RETURN(std::vector<fs::path> relatives, FilesBelow(folder));
    const char* slash = absl::EndsWith(path, "/") ? "" : "/";
    for (const fs::path& relative : relatives) {
      RETURN_IF_ERROR(
          AddFile(absl::StrCat(path, slash, relative.generic_string()),
                  folder / relative));
    }
    return absl::OkStatus();
  }

  absl::Status AddData(const std::string& field, const std::string& path) {
    const fs::path local = base_ / path;
    std::error_code error;
    if (fs::is_regular_file(local, error)) {
      absl::Status status = AddFile(path, local);
      const bool rows = images() && local.extension() != ".safetensors";
      return status.ok() && rows ? AddImages(path, local) : status;
    }
    if (images() && fs::is_directory(local, error)) {
      return AddFolder(path, local);
    }
    if (fs::path(path).is_absolute() && !fs::exists(local, error)) {
      return absl::OkStatus();
    }
    return Missing(field, path, local, images() ? "file or folder" : "file");
  }

  // Adds the images that rows of JSON Lines name, relative to that file's
  // folder. The worker refuses rows that cannot be read.
  absl::Status AddImages(const std::string& path, const fs::path& local) {
    ASSIGN_OR_RETURN(std::string text, base::ReadFile(local));
    std::istringstream lines(std::move(text));
    std::string line;
    for (int64_t number = 1; std::getline(lines, line); ++number) {
      const std::optional<std::string> image = ImageOf(line);
      if (!image || fs::path(*image).is_absolute()) continue;
      const fs::path file = local.parent_path() / *image;
      std::error_code error;
      if (!fs::is_regular_file(file, error)) {
        return absl::NotFoundError(
            absl::StrCat(local.string(), ":", number, ": there is no image ",
                         file.lexically_normal().string()));
      }
      const fs::path spelled = fs::path(path).parent_path() / *image;
      RETURN_IF_ERROR(
          AddFile(spelled.lexically_normal().generic_string(), file));
    }
    return absl::OkStatus();
  }

  std::optional<std::string> ImageOf(const std::string& line) const {
    const auto row = base::ParseTree<nlohmann::json>(line);
    if (!row.is_object()) return std::nullopt;
    const std::string& column = spec_.dataset.image_column;
    const auto image = row.find(column.empty() ? "image" : column);
    if (image == row.end() || !image->is_string()) return std::nullopt;
    return image->get<std::string>();
  }

  // Adds a folder of this machine, or leaves an absolute path to the daemon.
  absl::Status AddPlace(const std::string& field, const std::string& path) {
    const fs::path folder = base_ / path;
    std::error_code error;
    if (path.empty() || spec::NamesResult(path)) return absl::OkStatus();
    if (fs::is_directory(folder, error)) return AddFolder(path, folder);
    if (fs::path(path).is_absolute()) return absl::OkStatus();
    return Missing(field, path, folder, "folder");
  }

  // Takes from a folder, perhaps a model's, only the template's files.
  absl::Status AddChatTemplate() {
    constexpr char kField[] = "training.chat_template_path";
    const std::string& path = spec_.training.chat_template_path;
    const fs::path local = base_ / path;
    std::error_code error;
    if (path.empty()) return absl::OkStatus();
    if (fs::is_regular_file(local, error)) return AddFile(path, local);
    if (!fs::is_directory(local, error)) {
      if (fs::path(path).is_absolute()) return absl::OkStatus();
      return Missing(kField, path, local, "file or folder");
    }
    const size_t before = job_.files.size();
    const char* slash = absl::EndsWith(path, "/") ? "" : "/";
    for (const char* name : {"chat_template.jinja", "tokenizer_config.json",
                             "special_tokens_map.json", "added_tokens.json"}) {
      if (!fs::is_regular_file(local / name, error)) continue;
      RETURN_IF_ERROR(AddFile(absl::StrCat(path, slash, name), local / name));
    }
    if (job_.files.size() > before) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(
        kField, ": ", local.string(),
        " has neither chat_template.jinja nor tokenizer_config.json"));
  }

  const spec::TrainSpec& spec_;
  const fs::path& base_;
  PreparedJob& job_;
  std::set<std::string> known_;
};

bool LooksLikePath(const std::string& model) {
  return absl::StartsWith(model, "./") || absl::StartsWith(model, "../") ||
         absl::StartsWith(model, "~");
}

absl::Status PlaceModel(const std::string& model, const fs::path& base,
                        PreparedJob& job) {
  if (fs::path(model).is_absolute() || spec::NamesResult(model)) {
    return absl::OkStatus();
  }
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

// A weight file given by mistake as job.json is not read. A pipe, such as a
// shell's <(…), has no size.
absl::StatusOr<std::string> ReadSpec(const fs::path& job_file) {
  std::error_code error;
  if (fs::is_regular_file(job_file, error)) {
    return base::ReadSmallFile(job_file, limits::kSpecBytes);
  }
  return base::ReadFile(job_file);
}

}  // namespace

v1::SubmitRequest RequestOf(const PreparedJob& job) {
  v1::SubmitRequest request;
  request.set_spec_json(job.spec_json);
  for (const LocalFile& file : job.files) {
    v1::InputFile* input = request.add_inputs();
    input->set_path(file.path);
    input->set_sha256(file.sha256);
  }
  return request;
}

absl::StatusOr<PreparedJob> PrepareJob(const fs::path& job_file,
                                       const HashOptions& hashing) {
  ASSIGN_OR_RETURN(std::string text, ReadSpec(job_file));
  ASSIGN_OR_RETURN(spec::TrainSpec spec,
                   spec::ParseTrainSpec(text, job_file.string()));
  PreparedJob job;
  job.spec_json = std::move(text);
  job.warnings = spec::IdleWarnings(spec);
  const fs::path base = job_file.parent_path();
  absl::Status status = Collector(spec, base, job).Run();
  if (status.ok()) status = PlaceModel(spec.model, base, job);
  if (status.ok()) status = HashFiles(job.files, hashing);
  if (!status.ok()) return status;
  return job;
}

}  // namespace mpsd::client
