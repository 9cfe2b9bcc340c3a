// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_cache.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::data {
namespace {

namespace fs = std::filesystem;
using base::Cat;
using nlohmann::json;

// Incremented when a program change gives the same row other tokens or labels.
constexpr int kEncoding = 4;
// Incremented with the layout of a file, see Layout.
constexpr int kFormat = 3;
constexpr std::string_view kMagic = "mpsdtok3";
constexpr char kSuffix[] = ".tokens", kNumbers[] = ".numbers";
constexpr size_t kDigest = 64;  // hexadecimal digits
constexpr auto kAbandoned = std::chrono::hours(1);

// A file, each part at a multiple of eight: kMagic; the head's length (u64);
// the head, JSON padded with spaces; TokenArrays' ends (i64), ids (i32, padded
// with zeros) and bits (u64); SHA-256 of everything before it.
struct Layout {
  size_t head = kMagic.size() + sizeof(uint64_t);
  size_t ends, ids, bits, digest, size;

  Layout(size_t head_size, int64_t samples, int64_t tokens) {
    ends = head + head_size;
    ids = ends + samples * sizeof(int64_t);
    bits = ids + (tokens + 1) / 2 * 2 * sizeof(int32_t);
    digest = bits + (tokens + 63) / 64 * sizeof(uint64_t);
    size = digest + kDigest;
  }
};

std::string HeadOf(const std::string& key, const TokenDataset& dataset) {
  const DatasetStats& s = dataset.stats();
  const json object = {{"key", key},
                       {"hash", dataset.hash()},
                       {"pad_id", dataset.pad_id()},
                       {"samples", dataset.samples().size()},
                       {"rows", s.rows},
                       {"tokens", dataset.samples().tokens()},
                       {"label_tokens", s.label_tokens},
                       {"truncated_rows", s.truncated_rows},
                       {"dropped_rows", s.dropped_rows},
                       {"prompt_mismatch_rows", s.prompt_mismatch_rows},
                       {"prompt_rows", s.prompt_rows}};
  std::string head = object.dump();
  head.resize((head.size() + 7) / 8 * 8, ' ');
  return head;
}

// Writes and hashes in one pass; after an error it does nothing more.
class HashingWriter {
 public:
  explicit HashingWriter(base::AtomicFile& file) : file_(file) {}

  void Write(std::string_view bytes) {
    if (!status_.ok()) return;
    hash_.Update(bytes);
    status_ = file_.Append(bytes);
  }
  template <typename T>
  void Write(const BlockArray<T>& array) {
    array.ForEachPiece([this](const T* values, int64_t count) {
      Write({reinterpret_cast<const char*>(values), count * sizeof(T)});
    });
  }
  absl::Status Finish() {
    if (status_.ok()) status_ = file_.Append(hash_.FinishHex());
    return status_;
  }

 private:
  base::AtomicFile& file_;
  base::Sha256 hash_;
  absl::Status status_;
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
  number("prompt_rows", stats.prompt_rows);
  return stats;
}

// The head's length; nullopt if the head would be longer than the file.
std::optional<size_t> HeadSize(std::string_view bytes) {
  const size_t begin = kMagic.size() + sizeof(uint64_t);
  if (bytes.size() < begin + kDigest || !bytes.starts_with(kMagic)) {
    return std::nullopt;
  }
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size(), sizeof size);
  if (size % 8 != 0 || size > bytes.size() - begin) return std::nullopt;
  return size;
}

// A count in the head of items of `bytes` each; nullopt if they would not fit
// into `size`: a broken file must not make reads go beyond its mapping.
std::optional<int64_t> Count(const json& head, const char* name, size_t bytes,
                             size_t size) {
  const auto it = head.find(name);
  if (it == head.end() || !it->is_number_unsigned()) return std::nullopt;
  const uint64_t count = it->get<uint64_t>();
  if (count == 0 || count > size / bytes) return std::nullopt;
  return static_cast<int64_t>(count);
}

bool ReadPadId(const json& head, int32_t& pad_id) {
  const auto it = head.find("pad_id");
  if (it == head.end() || !it->is_number_integer()) return false;
  it->get_to(pad_id);
  return true;
}

// Whether the ends increase up to `tokens`, so that every sample has a token.
bool AreEnds(const int64_t* ends, int64_t samples, int64_t tokens) {
  int64_t begin = 0;
  for (int64_t i = 0; i < samples; ++i) {
    if (ends[i] <= begin) return false;
    begin = ends[i];
  }
  return begin == tokens;
}

// The SHA-256 of the file's first `size` bytes; drops the pages it read.
std::string HashOf(const base::MappedFile& file, size_t size) {
  constexpr size_t kPiece = 1 << 20;
  base::Sha256 hash;
  for (size_t at = 0; at < size; at += kPiece) {
    const size_t piece = std::min(kPiece, size - at);
    hash.Update(file.bytes().substr(at, piece));
    file.DropPages(at, piece);
    base::CountWork();
  }
  return hash.FinishHex();
}

// The data set in the file; nullopt if the file is incomplete or has another
// key.
std::optional<TokenDataset> DatasetIn(
    std::shared_ptr<const base::MappedFile> file, const std::string& key,
    const TokenizeOptions& options) {
  const std::string_view bytes = file->bytes();
  const auto head_size = HeadSize(bytes);
  if (!head_size) return std::nullopt;
  // The digest is checked before anything else in the file: bytes that pass are
  // those that Put wrote. The bounds below still protect against a file to
  // which another program gave a valid digest.
  if (HashOf(*file, bytes.size() - kDigest) !=
      bytes.substr(bytes.size() - kDigest)) {
    return std::nullopt;
  }
  const json head =
      json::parse(bytes.substr(Layout(0, 0, 0).head, *head_size), nullptr,
                  /*allow_exceptions=*/false);
  if (!head.is_object() || head.value("key", json()) != key ||
      !head.value("hash", json()).is_string()) {
    return std::nullopt;
  }
  const auto samples = Count(head, "samples", sizeof(int64_t), bytes.size());
  const auto tokens = Count(head, "tokens", sizeof(int32_t), bytes.size());
  if (!samples || !tokens) return std::nullopt;
  TokenizeOptions with_pad = options;
  if (!ReadPadId(head, with_pad.pad_id)) return std::nullopt;
  const Layout layout(*head_size, *samples, *tokens);
  if (layout.size != bytes.size()) return std::nullopt;
  const char* data = bytes.data();
  const auto* ends = reinterpret_cast<const int64_t*>(data + layout.ends);
  const auto* ids = reinterpret_cast<const int32_t*>(data + layout.ids);
  const auto* bits = reinterpret_cast<const uint64_t*>(data + layout.bits);
  if (!AreEnds(ends, *samples, *tokens)) return std::nullopt;
  return TokenDataset(
      TokenArrays::InFile(std::move(file), ends, *samples, ids, bits, *tokens),
      with_pad, StatsOf(head), head["hash"].get<std::string>());
}

// Whether a tokenizer or a chat template may be read from the file.
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
  std::set<fs::path> files;  // sorted: the key needs one order
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

absl::StatusOr<std::optional<TokenDataset>> TokenCache::Find(
    const std::string& key, const TokenizeOptions& options) const {
  const fs::path path = PathOf(key);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  ASSIGN_OR_RETURN(auto file, base::MappedFile::Open(path));
  auto dataset = DatasetIn(std::move(file), key, options);
  if (!dataset) {
    return absl::DataLossError(
        Cat(path.string(), ": is broken; the data is tokenized again"));
  }
  // The file's time is its last use, by which DropOldest selects.
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return dataset;
}

absl::Status TokenCache::Put(const std::string& key,
                             const TokenDataset& dataset) const {
  const TokenArrays& arrays = dataset.samples();
  const std::string head = HeadOf(key, dataset);
  const Layout layout(head.size(), arrays.size(), arrays.tokens());
  if (static_cast<int64_t>(layout.size) > max_bytes_) return absl::OkStatus();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return base::ErrnoStatus(error.value(), folder_.string());
  // Not started if the file does not fit: other programs need the rest of the
  // disk.
  const fs::space_info space = fs::space(folder_, error);
  if (!error && space.available < layout.size) {
    return base::ErrnoStatus(ENOSPC, folder_.string());
  }
  ASSIGN_OR_RETURN(auto file, base::AtomicFile::Create(PathOf(key)));
  HashingWriter writer(*file);
  const uint64_t head_size = head.size();
  writer.Write(kMagic);
  writer.Write({reinterpret_cast<const char*>(&head_size), sizeof head_size});
  writer.Write(head);
  writer.Write(arrays.ends());
  writer.Write(arrays.ids());
  if (arrays.tokens() % 2 != 0) writer.Write(std::string(sizeof(int32_t), 0));
  writer.Write(arrays.bits());
  absl::Status s = writer.Finish();
  // Without fsync: Find detects by the digest if a power cut damaged the file.
  if (s.ok()) s = file->CommitUnsynced();
  if (s.ok()) DropOldest();
  return s;
}

// A file of numbers: fp32, then the SHA-256 of their bytes.
std::optional<std::vector<float>> TokenCache::FindNumbers(
    const std::string& key, size_t count) const {
  const fs::path path = folder_ / (key + kNumbers);
  const auto bytes = base::ReadFile(path);
  const size_t size = count * sizeof(float);
  if (!bytes.ok() || bytes->size() != size + kDigest ||
      base::Sha256Hex(bytes->substr(0, size)) != bytes->substr(size)) {
    return std::nullopt;
  }
  std::vector<float> numbers(count);
  std::memcpy(numbers.data(), bytes->data(), size);
  std::error_code error;
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return numbers;
}

absl::Status TokenCache::PutNumbers(const std::string& key,
                                    const std::vector<float>& numbers) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  std::string bytes(reinterpret_cast<const char*>(numbers.data()),
                    numbers.size() * sizeof(float));
  bytes += base::Sha256Hex(bytes);
  RETURN_IF_ERROR(base::WriteFileAtomic(folder_ / (key + kNumbers), bytes));
  DropOldest();
  return absl::OkStatus();
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
  const auto now = fs::file_time_type::clock::now();
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    // Left by a process that was killed while writing.
    if (base::IsUnfinished(entry.path()) &&
        entry.last_write_time(error) < now - kAbandoned) {
      fs::remove(entry.path(), error);
    }
    const fs::path extension = entry.path().extension();
    if (extension != kSuffix && extension != kNumbers) continue;
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
                                     const TokenizeOptions& options) {
  const LanguageRowFormat& r = options.rows;
  std::string made_of = Cat(
      "format ", kFormat, ", encoding ", kEncoding, ", mpsd ", MPSD_VERSION,
      ", max_length ", options.max_length, ", vocab_size ",
      options.tables.tokens, ", assistant ",
      Spelled(options.assistant_only_loss), ", completion ",
      Spelled(options.completion_only_loss), "\nrows ",
      json{r.messages_column, r.prompt_column, r.completion_column,
           r.text_column, r.format}
          .dump(-1, ' ', false, json::error_handler_t::replace),
      r.preferences ? "\npreferences" : "", "\ntext ", options.text_id, "\n");
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(auto digest, base::Sha256File(file));
    made_of += Cat("data ", digest, "\n");
  }
  ASSIGN_OR_RETURN(auto tokenizer, TokenizerFiles(model_folder));
  for (const fs::path& file : tokenizer) {
    ASSIGN_OR_RETURN(auto digest, base::Sha256File(file));
    made_of += Cat("model ", file.lexically_relative(model_folder).string(),
                   " ", digest, "\n");
  }
  return base::Sha256Hex(made_of);
}

absl::StatusOr<TokenDataset> LoadCachedTokens(
    const std::vector<std::string>& files, const TokenizeOptions& options,
    const fs::path& model_folder, const fs::path& cache_folder,
    const std::function<absl::StatusOr<TokenDataset>()>& load,
    const std::function<void(const std::string&)>& warn) {
  if (cache_folder.empty()) return load();
  const TokenCache cache(cache_folder);
  const auto key = TokenKey(files, model_folder, options);
  if (!key.ok()) return load();  // reports what is wrong with the files
  auto found = cache.Find(*key, options);
  if (!found.ok()) {
    warn(std::string(found.status().message()));
  } else if (*found) {
    return **std::move(found);
  }
  auto dataset = load();
  if (!dataset.ok()) return dataset;
  if (absl::Status s = cache.Put(*key, *dataset); !s.ok()) {
    warn(Cat("tokenized data is not cached: ", std::string(s.message())));
    return dataset;
  }
  // Use the mapped file instead of the loaded copy: the system may drop its
  // pages.
  auto kept = cache.Find(*key, options);
  if (kept.ok() && *kept) return **std::move(kept);
  return dataset;
}

}  // namespace mpsd::data
