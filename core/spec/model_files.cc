// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/printable.h"
#include "core/base/small_file.h"
#include "core/base/status_macros.h"

namespace mpsd::spec {
namespace fs = std::filesystem;
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

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, size_t bytes,
                                   const fs::path& path) {
  std::string text(bytes, '\0');
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(fd, text.data() + got, bytes - got, offset + got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path.string());
    if (n == 0) return Broken(path, "it ends too early: copy it again");
    got += n;
  }
  return text;
}

int64_t LengthIn(const std::string& bytes) {
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::min(length, kMost));
}

// The end of the last tensor, counted from the first; -1 if the header is not a
// safetensors header.
int64_t DataEnd(const nlohmann::json& header) {
  if (!header.is_object()) return -1;
  int64_t end = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor.find("data_offsets");
    const bool has_end = tensor.is_object() && offsets != tensor.end() &&
                         offsets->is_array() && offsets->size() == 2 &&
                         offsets->back().is_number_unsigned();
    if (!has_end) return -1;
    const uint64_t last = offsets->back().get<uint64_t>();
    if (last > std::numeric_limits<int64_t>::max() / 2) return -1;
    end = std::max(end, static_cast<int64_t>(last));
  }
  return end;
}

absl::Status CheckWeightFile(const fs::path& path,
                             const base::ReadRoots* within) {
  ASSIGN_OR_RETURN(const int opened,
                   base::OpenToRead(path, within, O_NONBLOCK | O_CLOEXEC));
  const Descriptor file(opened);
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
  const int64_t end = DataEnd(base::ParseTree<nlohmann::json>(text));
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
  const auto index = base::ParseTree<nlohmann::json>(text);
  std::set<std::string> shards;
  if (index.is_object() && index.contains("weight_map") &&
      index["weight_map"].is_object()) {
    for (const auto& [name, file] : index["weight_map"].items()) {
      if (!file.is_string() ||
          !IsFileName(file.get_ref<const std::string&>())) {
        return Broken(path, absl::StrCat("weight_map[\"", base::Quotable(name),
                                         "\"] is not a file name"));
      }
      shards.insert(file.get<std::string>());
    }
  }
  if (!shards.empty()) return shards;
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
