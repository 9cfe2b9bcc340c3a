// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/descriptor.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace fs = std::filesystem;

namespace {

constexpr char kRepository[] = "models--";
constexpr char kPushed[] = "pushed";
constexpr char kMain[] = "main";

bool HasConfig(const fs::path& dir) {
  std::error_code error;
  return fs::is_regular_file(dir / "config.json", error);
}

fs::path CacheFolder(const Environment& environment) {
  const auto value = [&](const char* name) -> fs::path {
    const char* text = environment(name);
    return text == nullptr ? "" : text;
  };
  if (fs::path cache = value("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (fs::path home = value("HF_HOME"); !home.empty()) return home / "hub";
  if (fs::path xdg = value("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg / "huggingface" / "hub";
  }
  return value("HOME") / ".cache" / "huggingface" / "hub";
}

// Hugging Face ids: "name" or "owner/name".
bool LooksLikeId(const std::string& model) {
  int slashes = 0;
  for (char c : model) {
    if (c == '/') ++slashes;
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_' && c != '.' &&
        c != '/') {
      return false;
    }
  }
  return slashes <= 1 && absl::ascii_isalnum(model.front()) &&
         model.back() != '/';
}

fs::path RepositoryOf(const std::string& id, const Environment& environment) {
  return CacheFolder(environment) / RepositoryName(id);
}

// The snapshot that refs/NAME names; empty without such a ref.
fs::path SnapshotOfRef(const fs::path& repository, const std::string& name) {
  const auto ref =
      base::ReadSmallFile(repository / "refs" / name, limits::kPathBytes);
  if (!ref.ok()) return {};
  const std::string hash(absl::StripAsciiWhitespace(*ref));
  const fs::path snapshot = repository / "snapshots" / hash;
  return !hash.empty() && HasConfig(snapshot) ? snapshot : fs::path();
}

const char* OfThisProcess(const char* name) { return std::getenv(name); }

// The snapshot of `id` at a commit or at the ref of that name, and no other.
absl::StatusOr<std::string> FindSnapshot(const std::string& id,
                                         const std::string& revision,
                                         const Environment& environment) {
  if (id.empty() || !LooksLikeId(id)) {
    return absl::NotFoundError(base::Cat("model: there is no folder ", id));
  }
  const fs::path repository = RepositoryOf(id, environment);
  // Neither may lead out of the repository.
  if (!revision.empty() && revision.find("..") == std::string::npos) {
    const fs::path snapshot = repository / "snapshots" / revision;
    if (HasConfig(snapshot)) return snapshot.string();
    const fs::path named = SnapshotOfRef(repository, revision);
    if (!named.empty()) return named.string();
  }
  const bool is_main = revision == kMain;
  return absl::NotFoundError(base::Cat(
      "model: neither a folder ", id, " nor a snapshot with config.json of ",
      is_main ? "the ref main" : revision, " in ", repository.string(),
      "; fetch it with `hf download ", id,
      is_main ? "" : base::Cat(" --revision ", revision),
      "`, or name a model folder"));
}

absl::StatusOr<std::string> FindInCache(const std::string& model,
                                        const Environment& environment) {
  const HubName name = ParseHubName(model);
  return FindSnapshot(name.id, name.revision, environment);
}

}  // namespace

absl::StatusOr<std::string> FindModelFolder(const std::string& model,
                                            const Environment& environment) {
  if (model.empty()) {
    return absl::InvalidArgumentError("model: the name is empty");
  }
  if (HasConfig(model)) return model;
  std::error_code error;
  if (fs::is_directory(model, error)) {
    return absl::NotFoundError(
        base::Cat("model: the folder ", model,
                  " has no config.json; name a folder in Hugging Face layout"));
  }
  return FindInCache(model, environment);
}

absl::StatusOr<std::string> FindModelFolder(const std::string& model) {
  return FindModelFolder(model, OfThisProcess);
}

std::string HubCacheFolder() { return CacheFolder(OfThisProcess).string(); }

HubName ParseHubName(const std::string& model) {
  const size_t at = model.find('@');
  if (at == std::string::npos) return {model, kMain};
  return {model.substr(0, at), model.substr(at + 1)};
}

absl::StatusOr<std::string> FindInHubCache(const std::string& model) {
  return FindInCache(model, OfThisProcess);
}

std::string RepositoryName(const std::string& id) {
  return base::Cat(kRepository, absl::StrReplaceAll(id, {{"/", "--"}}));
}

std::string IdOfRepository(const std::string& folder_name) {
  if (!folder_name.starts_with(kRepository)) return "";
  std::string id = folder_name.substr(sizeof(kRepository) - 1);
  const size_t slash = id.find("--");
  if (slash != std::string::npos) {
    id = base::Cat(id.substr(0, slash), "/", id.substr(slash + 2));
  }
  return id.empty() || !LooksLikeId(id) ? "" : id;
}

std::string PushedFolder(const std::string& models_dir, const std::string& id,
                         const std::string& revision) {
  return fs::path(models_dir) / RepositoryName(id) / kPushed / revision;
}

bool Names(const std::string& id, const std::string& folder) {
  if (!RevisionOf(id, folder).empty()) return true;
  const fs::path pushed = fs::path(folder).parent_path();
  return !id.empty() && LooksLikeId(id) && pushed.filename() == kPushed &&
         pushed.parent_path().filename() == RepositoryName(id);
}

std::string RevisionOf(const std::string& id, const std::string& folder) {
  const fs::path path(folder);
  const fs::path snapshots = path.parent_path();
  if (id.empty() || !LooksLikeId(id) || snapshots.filename() != "snapshots" ||
      snapshots.parent_path().filename() != RepositoryName(id)) {
    return "";
  }
  return path.filename().string();
}

BaseModel BaseModelOf(const TrainSpec& spec, const std::string& folder) {
  const std::string& name = spec.model_id.empty() ? spec.model : spec.model_id;
  const std::string id = ParseHubName(name).id;
  const std::string revision = RevisionOf(id, folder);
  return {revision.empty() ? name : id, revision};
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base,
                                          const Environment& environment) {
  if (base.revision.empty() || HasConfig(base.name)) {
    return FindModelFolder(base.name, environment);
  }
  return FindSnapshot(base.name, base.revision, environment);
}

absl::StatusOr<std::string> FindBaseModel(const BaseModel& base) {
  return FindBaseModel(base, OfThisProcess);
}

namespace {

constexpr char kConfig[] = "config.json";
constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
// Files that Transformers saves in addition to the weights.
constexpr std::string_view kFiles[] = {kConfig,
                                       kIndex,
                                       "generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.txt",
                                       "vocab.json",
                                       "merges.txt",
                                       "tokenizer.model",
                                       "chat_template.jinja",
                                       "preprocessor_config.json"};
constexpr std::string_view kTemplates = "additional_chat_templates/";

// A length in bytes, of a number without a sign, the lowest byte first.
constexpr size_t kLengthBytes = 8;
// Headers of real models have some KiB per layer. A longer one is left to the
// worker: as a tree it would take too much of the daemon's memory.
constexpr int64_t kHeaderBytes = 16 << 20;
constexpr size_t kIndexBytes = 16 << 20;

bool IsFileName(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

absl::Status Broken(const fs::path& path, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.filename().string(), ": ", what));
}

// Bytes that the file must have.
absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, size_t bytes,
                                   const fs::path& path) {
  ASSIGN_OR_RETURN(std::string text, base::ReadAt(fd, offset, bytes, path));
  if (text.size() == bytes) return text;
  return Broken(path, "it ends too early: copy it again");
}

int64_t LengthIn(const std::string& bytes) {
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(length, kMost));
}

using Json = nlohmann::json;
using Event = Json::parse_event_t;

// Whether `text` is a JSON object. `take` gets what is in it, as a callback of
// nlohmann's parser does. Keeps nothing: as a tree, some MiB would be hundreds.
bool ReadObject(std::string_view text,
                const std::function<void(int, Event, const Json&)>& take) {
  if (base::NestsTooDeep(text)) return false;
  const auto drop = [&](int depth, Event event, const Json& value) {
    take(depth, event, value);
    return event != Event::key && (depth > 0 || event != Event::array_start);
  };
  return Json::parse(text, drop, /*allow_exceptions=*/false).is_object();
}

// The end of the last tensor, counted from the first; -1 if the header is not a
// safetensors header.
int64_t DataEnd(std::string_view header) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / 2;
  uint64_t end = 0;
  bool is_tensor = false, in_offsets = false, is_header = true;
  int offsets = 2;  // of one tensor
  const bool is_object =
      ReadObject(header, [&](int depth, Event event, const Json& value) {
        if (event == Event::key && depth == 1) {
          is_header &= offsets == 2;
          is_tensor = value != "__metadata__";
          offsets = is_tensor ? 0 : 2;
        }
        if (event == Event::key && depth <= 2) {
          in_offsets = is_tensor && depth == 2 && value == "data_offsets";
        } else if (depth == 3 && in_offsets) {
          ++offsets;
          is_header &=
              value.is_number_unsigned() && value.get<uint64_t>() <= kMost;
          if (is_header) end = std::max(end, value.get<uint64_t>());
        }
      });
  const bool is_whole = is_object && is_header && offsets == 2;
  return is_whole ? static_cast<int64_t>(end) : -1;
}

absl::Status CheckWeightFile(const fs::path& path,
                             const base::ReadRoots* within) {
  ASSIGN_OR_RETURN(const int opened,
                   base::OpenToRead(path, within, O_NONBLOCK | O_CLOEXEC));
  const base::UniqueFd file(opened);
  struct stat info;
  if (fstat(file.get(), &info) != 0) {
    return base::ErrnoStatus(errno, path.string());
  }
  if (!S_ISREG(info.st_mode)) return Broken(path, "is not a regular file");
  ASSIGN_OR_RETURN(const auto first, ReadAt(file.get(), 0, kLengthBytes, path));
  if (first == "version ") {
    return Broken(path,
                  "is a pointer of Git LFS, not the weights: fetch them with "
                  "`git lfs pull`");
  }
  const int64_t length = LengthIn(first);
  const int64_t body = info.st_size - static_cast<int64_t>(kLengthBytes);
  if (length > body) {
    return Broken(path, "is not a safetensors file, or ends too early");
  }
  if (length > kHeaderBytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto text,
                   ReadAt(file.get(), kLengthBytes, length, path));
  const int64_t end = DataEnd(text);
  if (end < 0) return Broken(path, "is not a safetensors file");
  if (end == body - length) return absl::OkStatus();
  return Broken(path,
                absl::StrCat("its tensors take ", end,
                             " bytes and it "
                             "has ",
                             body - length,
                             " for them: it is incomplete, copy it again"));
}

// The files that the index names.
absl::StatusOr<std::set<std::string>> ShardsOf(const fs::path& path,
                                               const base::ReadRoots* within) {
  ASSIGN_OR_RETURN(const auto text,
                   base::ReadSmallFile(path, kIndexBytes, within));
  std::set<std::string> shards;
  std::string name, wrong;
  bool in_map = false;
  const bool is_object =
      ReadObject(text, [&](int depth, Event event, const Json& value) {
        if (event == Event::key) {
          if (depth == 1) in_map = value == "weight_map";
          if (depth == 2) name = value;
        } else if (depth == 1 && event == Event::array_start) {
          in_map = false;
        } else if (depth == 2 && in_map && value.is_string() &&
                   IsFileName(value.get_ref<const std::string&>())) {
          shards.insert(value);
        } else if (depth == 2 && in_map && wrong.empty()) {
          wrong = absl::StrCat("weight_map[\"", base::Quotable(name),
                               "\"] is not a file name");
        }
      });
  if (!wrong.empty()) return Broken(path, wrong);
  if (is_object && !shards.empty()) return shards;
  return Broken(path, "expected an object with weight_map");
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

bool IsModelFile(const std::string& path) {
  const std::string_view name = path;
  if (name.starts_with(kTemplates)) {
    const std::string_view file = name.substr(kTemplates.size());
    return IsFileName(file) && file.ends_with(".jinja");
  }
  if (!IsFileName(name)) return false;
  if (name.starts_with("model") && name.ends_with(".safetensors")) return true;
  return std::find(std::begin(kFiles), std::end(kFiles), name) !=
         std::end(kFiles);
}

absl::StatusOr<ModelFolder> ReadModelFolder(const fs::path& folder,
                                            const base::ReadRoots* within) {
  if (!Exists(folder / kConfig)) {
    return absl::NotFoundError(
        "there is no config.json; name a folder in Hugging Face layout");
  }
  ASSIGN_OR_RETURN(ModelConfig config,
                   ReadModelConfig(folder.string(), within));
  ModelFolder model;
  model.config = std::move(config);
  std::set<std::string> files;
  if (Exists(folder / kWeights)) {
    files.insert(kWeights);
  } else if (Exists(folder / kIndex)) {
    ASSIGN_OR_RETURN(auto shards, ShardsOf(folder / kIndex, within));
    files = std::move(shards);
  }
  for (const std::string& file : files) {
    if (!Exists(folder / file)) {
      return Broken(folder / kIndex,
                    absl::StrCat("names ", file, ", which is not there"));
    }
    RETURN_IF_ERROR(CheckWeightFile(folder / file, within));
  }
  model.weights = std::move(files);
  return model;
}

}  // namespace mpsd::spec
