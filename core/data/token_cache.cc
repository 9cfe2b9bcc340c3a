// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_cache.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/spec/cat.h"

namespace mpsd::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using spec::Cat;

// Raised whenever the same row becomes other tokens or labels.
constexpr int kEncoding = 2;
constexpr std::string_view kMagic = "mpsdtok1";
constexpr char kSuffix[] = ".tokens";
constexpr size_t kDigest = 64;  // of all before it, at the end of the file
constexpr int64_t kMaxBytes = int64_t{4} << 30;

template <typename T>
void Append(const T* values, size_t count, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

// A file: kMagic, the length of the JSON that follows, per sample its length
// (u32), all tokens (i32), all marks of labels (u8), the digest.
std::string Pack(const std::string& key, const Dataset& dataset) {
  const DatasetStats& s = dataset.stats();
  const std::string head = json{
      {"key", key},
      {"hash", dataset.hash()},
      {"samples", dataset.size()},
      {"rows", s.rows},
      {"tokens", s.tokens},
      {"label_tokens", s.label_tokens},
      {"truncated_rows", s.truncated_rows},
      {"dropped_rows", s.dropped_rows},
      {"prompt_mismatch_rows",
       s.prompt_mismatch_rows}}.dump();
  std::string bytes(kMagic);
  const uint64_t head_size = head.size();
  Append(&head_size, 1, bytes);
  bytes += head;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto length = static_cast<uint32_t>(dataset.length(i));
    Append(&length, 1, bytes);
  }
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto& ids = dataset.sample(i).input_ids;
    Append(ids.data(), ids.size(), bytes);
  }
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto& marks = dataset.sample(i).in_loss;
    Append(marks.data(), marks.size(), bytes);
  }
  return bytes + base::Sha256Hex(bytes);
}

// Takes a file apart; `ok` turns false where it ends too soon.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  std::string_view Text(size_t size) {
    ok_ = ok_ && size <= left_.size();
    if (!ok_) return {};
    const std::string_view text = left_.substr(0, size);
    left_.remove_prefix(size);
    return text;
  }
  template <typename T>
  std::vector<T> Values(size_t count) {
    if (count > left_.size()) ok_ = false;
    const std::string_view bytes = Text(ok_ ? count * sizeof(T) : 0);
    std::vector<T> values(ok_ ? count : 0);
    if (!values.empty()) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return values;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

DatasetStats StatsOf(const json& head) {
  DatasetStats stats;
  const auto number = [&head](const char* name, int64_t& value) {
    const auto it = head.find(name);
    if (it != head.end() && it->is_number_integer()) it->get_to(value);
  };
  number("rows", stats.rows);
  number("tokens", stats.tokens);
  number("label_tokens", stats.label_tokens);
  number("truncated_rows", stats.truncated_rows);
  number("dropped_rows", stats.dropped_rows);
  number("prompt_mismatch_rows", stats.prompt_mismatch_rows);
  return stats;
}

// Nothing for what is no such file, or another key's.
std::optional<Dataset> Unpack(const std::string& key, std::string_view bytes,
                              const LoadOptions& options) {
  if (bytes.size() < kMagic.size() + kDigest) return std::nullopt;
  const std::string_view digest = bytes.substr(bytes.size() - kDigest);
  bytes.remove_suffix(kDigest);
  if (base::Sha256Hex(bytes) != digest) return std::nullopt;
  Unpacker file(bytes);
  if (file.Text(kMagic.size()) != kMagic) return std::nullopt;
  const auto head_size = file.Values<uint64_t>(1);
  const std::string_view text = file.Text(head_size.empty() ? 0 : head_size[0]);
  const json head = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!head.is_object() || head.value("key", json()) != key ||
      !head.value("samples", json()).is_number_unsigned() ||
      !head.value("hash", json()).is_string()) {
    return std::nullopt;
  }
  const auto lengths = file.Values<uint32_t>(head["samples"].get<size_t>());
  std::vector<Sample> samples(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    samples[i].input_ids = file.Values<int32_t>(lengths[i]);
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    samples[i].in_loss = file.Values<uint8_t>(lengths[i]);
  }
  if (!file.done() || samples.empty()) return std::nullopt;
  return Dataset(std::move(samples), options, StatsOf(head),
                 head["hash"].get<std::string>());
}

// What a tokenizer or a chat template may be read from.
bool MakesTokens(const fs::path& file) {
  const std::string extension = file.extension().string();
  const std::string name = file.filename().string();
  return extension == ".jinja" || extension == ".model" ||
         name.starts_with("tokenizer") || name.starts_with("vocab") ||
         name == "merges.txt" || name == "added_tokens.json" ||
         name == "special_tokens_map.json" || name == "config.json" ||
         name == "chat_template.json" || name == "generation_config.json";
}

absl::StatusOr<std::set<fs::path>> TokenizerFiles(const fs::path& folder) {
  std::set<fs::path> files;  // in an order of its own
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_regular_file() && MakesTokens(entry.path())) {
      files.insert(entry.path());
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return files;
}

std::string Spelled(const std::optional<bool>& flag) {
  return !flag ? "default" : *flag ? "true" : "false";
}

}  // namespace

fs::path TokenCache::PathOf(const std::string& key) const {
  return folder_ / (key + kSuffix);
}

absl::StatusOr<std::optional<Dataset>> TokenCache::Find(
    const std::string& key, const LoadOptions& options) const {
  const fs::path path = PathOf(key);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  auto file = base::MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto dataset = Unpack(key, (*file)->bytes(), options);
  if (!dataset) {
    return absl::DataLossError(
        Cat(path.string(), ": is broken; the data is tokenized again"));
  }
  // Its last use.
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return dataset;
}

absl::Status TokenCache::Put(const std::string& key,
                             const Dataset& dataset) const {
  const std::string bytes = Pack(key, dataset);
  if (static_cast<int64_t>(bytes.size()) > max_bytes_) return absl::OkStatus();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return base::ErrnoStatus(error.value(), folder_.string());
  absl::Status s = base::WriteFileAtomic(PathOf(key), bytes);
  if (s.ok()) DropOldest();
  return s;
}

void TokenCache::DropOldest() const {
  struct Kept {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Kept> all;
  int64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().extension() != kSuffix) continue;
    all.push_back({entry.last_write_time(error),
                   static_cast<int64_t>(entry.file_size(error)), entry.path()});
    total += all.back().bytes;
  }
  std::sort(all.begin(), all.end(),
            [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& kept : all) {
    if (total <= max_bytes_) break;
    if (fs::remove(kept.path, error)) total -= kept.bytes;
  }
}

absl::StatusOr<std::string> TokenKey(const std::vector<std::string>& files,
                                     const fs::path& model_folder,
                                     const LoadOptions& options) {
  std::string made_of =
      Cat("encoding ", kEncoding, ", mpsd ", MPSD_VERSION, ", max_length ",
          options.max_length, ", pad_id ", options.pad_id, ", assistant ",
          Spelled(options.assistant_only_loss), ", completion ",
          Spelled(options.completion_only_loss), "\n");
  for (const std::string& file : files) {
    auto digest = base::Sha256File(file);
    if (!digest.ok()) return digest.status();
    made_of += Cat("data ", *digest, "\n");
  }
  auto tokenizer = TokenizerFiles(model_folder);
  if (!tokenizer.ok()) return tokenizer.status();
  for (const fs::path& file : *tokenizer) {
    auto digest = base::Sha256File(file);
    if (!digest.ok()) return digest.status();
    made_of += Cat("model ", file.lexically_relative(model_folder).string(),
                   " ", *digest, "\n");
  }
  return base::Sha256Hex(made_of);
}

absl::StatusOr<Dataset> LoadCachedDataset(
    const std::vector<std::string>& files, const LoadOptions& options,
    const fs::path& model_folder, const text::Tokenizer& tokenizer,
    const text::ChatTemplate* chat_template, const fs::path& cache_folder,
    const std::function<void(double)>& progress,
    const std::function<void(const std::string&)>& warn) {
  const auto load = [&] {
    return LoadDataset(files, options, tokenizer, chat_template, progress);
  };
  if (cache_folder.empty()) return load();
  const TokenCache cache(cache_folder, kMaxBytes);
  const auto key = TokenKey(files, model_folder, options);
  if (!key.ok()) return load();  // says what is wrong with the files
  auto found = cache.Find(*key, options);
  if (!found.ok()) {
    warn(std::string(found.status().message()));
  } else if (*found) {
    if (progress) progress(1);
    return **std::move(found);
  }
  auto dataset = load();
  if (!dataset.ok()) return dataset;
  if (absl::Status s = cache.Put(*key, *dataset); !s.ok()) {
    warn(Cat("tokenized data is not kept: ", std::string(s.message())));
  }
  return dataset;
}

}  // namespace mpsd::data
