// SPDX-License-Identifier: Apache-2.0
#include "core/train/model_digests.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/read_roots.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr size_t kPiece = 8 << 20;
// Bytes of the weights to read ahead: after them the disk stays ahead of the
// loading thread without help.
constexpr int64_t kReadAhead = int64_t{1} << 30;

// A file's key in the cache. A file of the same path, size and time is assumed
// to have the same digest.
std::string CacheKey(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::canonical(path, error);
  // libc++'s file_time counts in 128 bits, which StrCat does not take.
  const auto time = static_cast<int64_t>(
      fs::last_write_time(path, error).time_since_epoch().count());
  return absl::StrCat(full.string(), "|", fs::file_size(path, error), "|",
                      time);
}

json ReadCache(const fs::path& cache) {
  auto text = base::ReadFile(cache);
  if (!text.ok()) return json::object();
  json object = json::parse(*text, nullptr, false);
  return object.is_object() ? object : json::object();
}

bool IsWeightFile(const fs::path& path) {
  return path.extension() == ".safetensors";
}

bool IsModelFile(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "config.json" || name == "tokenizer.json" ||
         name == "tokenizer_config.json" || name == "chat_template.jinja" ||
         name == "preprocessor_config.json" || IsWeightFile(path);
}

absl::StatusOr<std::string> HashFile(const fs::path& path,
                                     const std::atomic<bool>& stop) {
  ASSIGN_OR_RETURN(auto file, base::MappedFile::Open(path));
  const std::string_view bytes = file->bytes();
  base::Sha256 hash;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    if (stop) return absl::CancelledError("the model is hashed no further");
    const std::string_view piece = bytes.substr(at, kPiece);
    hash.Update(piece);
    file->DropPages(at, piece.size());
    base::CountWork();
  }
  return hash.FinishHex();
}

// Asks the system to read the file's beginning into memory. A hint: failures do
// not matter.
void ReadAhead(const fs::path& path, int64_t bytes) {
  const absl::StatusOr<int> opened = base::OpenToRead(path);
  if (!opened.ok()) return;
  const int fd = *opened;
#ifdef __APPLE__
  radvisory advice{0, static_cast<int>(bytes)};
  fcntl(fd, F_RDADVISE, &advice);
#else
  posix_fadvise(fd, 0, bytes, POSIX_FADV_WILLNEED);
#endif
  close(fd);
}

void ReadWeightsAhead(const fs::path& folder) {
  int64_t left = kReadAhead;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (IsWeightFile(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const auto size = static_cast<int64_t>(fs::file_size(file, error));
    if (error || left <= 0) return;
    ReadAhead(file, std::min(size, left));
    left -= size;
  }
}

}  // namespace

absl::StatusOr<Digests> HashModel(const fs::path& model_folder,
                                  const fs::path& cache,
                                  const std::atomic<bool>& stop) {
  json known = ReadCache(cache);
  Digests digests;
  std::error_code error;
  bool changed = false;
  for (const auto& entry : fs::directory_iterator(model_folder, error)) {
    if (!IsModelFile(entry.path())) continue;
    const std::string name = entry.path().filename().string();
    const std::string key = CacheKey(entry.path());
    if (known.contains(key) && known[key].is_string()) {
      digests[name] = known[key].get<std::string>();
      continue;
    }
    ASSIGN_OR_RETURN(auto digest, HashFile(entry.path(), stop));
    digests[name] = digest;
    known[key] = digest;
    changed = true;
  }
  if (error) return base::ErrnoStatus(error.value(), model_folder.string());
  // A cache that cannot be written costs the next run time, nothing else.
  if (changed) base::WriteFileAtomic(cache, known.dump()).IgnoreError();
  if (!changed) ReadWeightsAhead(model_folder);
  return digests;
}

ModelDigests::ModelDigests(fs::path model_folder, fs::path cache)
    : digests_(std::async(
          std::launch::async,
          [this, folder = std::move(model_folder), file = std::move(cache)] {
            return HashModel(folder, file, stop_);
          })) {}

// The member's destructor waits for the thread.
ModelDigests::~ModelDigests() { stop_ = true; }

bool ModelDigests::done() const {
  return digests_.wait_for(std::chrono::seconds(0)) ==
         std::future_status::ready;
}

absl::StatusOr<Digests> ModelDigests::Get() { return digests_.get(); }

}  // namespace mpsd::train
