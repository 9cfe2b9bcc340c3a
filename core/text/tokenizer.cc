// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/text/handover.h"

namespace mpsd::text {
namespace {

std::optional<int32_t> Find(const mpsd_text_tokenizer* rust,
                            std::string_view token) {
  const int64_t id = mpsd_text_token_to_id(rust, View(token));
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

absl::Status NoTokenizerJson(const std::string& dir) {
  std::string found;
  std::error_code error;
  for (const char* other : {"vocab.txt", "vocab.json", "tokenizer.model",
                            "spiece.model", "tekken.json"}) {
    if (!std::filesystem::exists(std::filesystem::path(dir) / other, error)) {
      continue;
    }
    absl::StrAppend(&found, found.empty() ? "; it has " : ", ", other);
  }
  if (!found.empty()) {
    absl::StrAppend(&found, ", of which Transformers makes one in Python: ",
                    "AutoTokenizer.from_pretrained(\"", dir,
                    "\").save_pretrained(\"", dir, "\")");
  }
  return absl::NotFoundError(absl::StrCat(dir, ": no tokenizer.json", found));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromFolder(
    const std::string& dir, const TextOverrides& overrides) {
  const std::string file =
      (std::filesystem::path(dir) / "tokenizer.json").string();
  absl::StatusOr<std::string> json = base::ReadFile(file);
  if (absl::IsNotFound(json.status())) return NoTokenizerJson(dir);
  RETURN_IF_ERROR(json.status());
  ASSIGN_OR_RETURN(FolderText folder, ReadFolderText(dir, overrides));
  if (!folder.class_fault.empty()) {
    return absl::InvalidArgumentError(folder.class_fault);
  }
  mpsd_text_tokenizer* rust = nullptr;
  ReceivedBytes error;
  const int code = mpsd_text_tokenizer_new(
      View(*json), View(folder.added_tokens_json), View(folder.class_json),
      folder.split_special_tokens, &rust, error.out());
  RETURN_IF_ERROR(ToStatus(code, error, file));
  std::map<std::string, int32_t> special;
  for (const auto& [name, token] : folder.special_tokens) {
    if (const auto id = Find(rust, token)) special[name] = *id;
  }
  auto tokenizer =
      absl::WrapUnique(new Tokenizer(rust, std::move(special), folder));
  for (const auto& [token, who] : folder.asked_tokens) {
    if (tokenizer->TokenToId(token)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": the model's tokenizer (", dir, ") has no token \"", token,
        "\"; tokens cannot be added to a model: name one that it has, or use a "
        "chat template made of its tokens"));
  }
  return tokenizer;
}

Tokenizer::Tokenizer(mpsd_text_tokenizer* rust,
                     std::map<std::string, int32_t> special,
                     const FolderText& folder)
    : rust_(rust),
      special_(std::move(special)),
      vocab_size_(static_cast<int32_t>(mpsd_text_vocab_size(rust))),
      truncate_left_(folder.truncate_left),
      has_chat_template_(!folder.chat_templates.empty()),
      single_texts_(folder.single_texts) {}

Tokenizer::~Tokenizer() { mpsd_text_tokenizer_free(rust_); }

absl::StatusOr<Encoding> Tokenizer::Encode(std::string_view text,
                                           bool add_special_tokens) const {
  ReceivedTokens tokens;
  ReceivedBytes error;
  const int code = mpsd_text_encode(rust_, View(text), add_special_tokens,
                                    tokens.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "tokenizer"));
  base::CountWork();
  Encoding encoding;
  encoding.ids.reserve(tokens->size);
  encoding.offsets.reserve(tokens->size);
  for (size_t i = 0; i < tokens->size; ++i) {
    const mpsd_text_token& token = tokens->data[i];
    encoding.ids.push_back(static_cast<int32_t>(token.id));
    encoding.offsets.emplace_back(token.range.begin, token.range.end);
  }
  return encoding;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::EncodeIds(
    std::string_view text, bool add_special_tokens) const {
  ReceivedIds ids;
  ReceivedBytes error;
  const int code = mpsd_text_encode_ids(rust_, View(text), add_special_tokens,
                                        ids.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "tokenizer"));
  base::CountWork();
  return std::vector<int32_t>(ids->data, ids->data + ids->size);
}

absl::StatusOr<ClassifierEncoding> Tokenizer::EncodeForClassifier(
    std::string_view text, std::optional<std::string_view> pair,
    int64_t max_length) const {
  if (pair && single_texts_) {
    return absl::InvalidArgumentError(
        "how this model's tokenizer class encodes pairs of texts is unknown "
        "here; use one text column");
  }
  const mpsd_text_view second = View(pair.value_or(std::string_view()));
  ReceivedClassifierTokens tokens;
  ReceivedBytes error;
  int truncated = 0;
  const int code = mpsd_text_encode_classifier(
      rust_, View(text), pair ? &second : nullptr,
      static_cast<size_t>(std::max<int64_t>(0, max_length)),
      truncate_left_ ? *truncate_left_ : -1, tokens.out(), &truncated,
      error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "tokenizer"));
  base::CountWork();
  ClassifierEncoding encoding;
  encoding.truncated = truncated != 0;
  encoding.ids.reserve(tokens->size);
  encoding.type_ids.reserve(tokens->size);
  for (size_t i = 0; i < tokens->size; ++i) {
    encoding.ids.push_back(static_cast<int32_t>(tokens->data[i].id));
    encoding.type_ids.push_back(static_cast<int32_t>(tokens->data[i].type_id));
  }
  return encoding;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              bool skip_special_tokens) const {
  const auto negative =
      std::find_if(ids.begin(), ids.end(), [](int32_t id) { return id < 0; });
  if (negative != ids.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokenizer: no token has the id ", *negative, " (at ",
                     negative - ids.begin(), ")"));
  }
  const std::vector<uint32_t> unsigned_ids(ids.begin(), ids.end());
  ReceivedBytes text;
  ReceivedBytes error;
  const int code =
      mpsd_text_decode(rust_, unsigned_ids.data(), unsigned_ids.size(),
                       skip_special_tokens, text.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "tokenizer"));
  return std::string(text->data, text->size);
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  return Find(rust_, token);
}

std::optional<int32_t> Tokenizer::SpecialId(const std::string& name) const {
  const auto it = special_.find(name);
  if (it == special_.end()) return std::nullopt;
  return it->second;
}

}  // namespace mpsd::text
