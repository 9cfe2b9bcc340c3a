// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/text/folder.h"

struct mpsd_text_tokenizer;  // The Rust half, see core/text/abi.h.

namespace mpsd::text {

// The tokens of one text. Both vectors have the same length.
struct Encoding {
  std::vector<int32_t> ids;
  // The half-open byte range of the text from which each token came, always
  // whole characters: tokens that share the bytes of one character share the
  // character's range. Tokens added by the post-processor (bos, eos) have (0,
  // 0).
  std::vector<std::pair<size_t, size_t>> offsets;
};

// A text, or a pair of texts, encoded for a classifier. Both vectors have the
// same length.
struct ClassifierEncoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // 0 or 1, by the post-processor
  bool truncated = false;
};

// The tokenizer of a Hugging Face model folder, with the ids that Transformers'
// AutoTokenizer gives: its tokenizer.json, changed by its class (see
// FolderText) and run by the library that Transformers uses. Truncation and
// padding stored in that file are ignored but for the side; the caller
// truncates. Immutable; several threads may use one at the same time.
class Tokenizer {
 public:
  // Reads tokenizer.json (required) and what ReadFolderText reads. Special
  // tokens are added to the vocabulary if tokenizer.json lacks them. Only that
  // file and the class decide whether bos and eos are added to a text
  // (add_bos_token is ignored, as in Transformers 5 with a tokenizer.json).
  // NotFound: no tokenizer.json. InvalidArgument names the file and the fault,
  // or a token that the overrides require and the vocabulary lacks.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromFolder(
      const std::string& dir, const TextOverrides& overrides = {});

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // `add_special_tokens` applies the post-processor (bos, [CLS] … [SEP]). A
  // rendered chat template already has its special tokens: pass false for one.
  // InvalidArgument: `text` is not UTF-8.
  absl::StatusOr<Encoding> Encode(std::string_view text,
                                  bool add_special_tokens) const;

  // Like Encode, without the byte ranges, and so faster.
  absl::StatusOr<std::vector<int32_t>> EncodeIds(std::string_view text,
                                                 bool add_special_tokens) const;

  // With special tokens, truncated to max_length tokens, which include these:
  // token by token from the longer of the two texts (longest_first), at the end
  // or, if tokenizer_config.json says truncation_side "left", at the beginning.
  // Equals Transformers' fast tokenizer([text], [pair], truncation=True,
  // max_length=max_length), tokenizers 0.23.3.
  // InvalidArgument: not UTF-8, max_length has no room for text, or a pair for
  // CodeLlama's class.
  absl::StatusOr<ClassifierEncoding> EncodeForClassifier(
      std::string_view text, std::optional<std::string_view> pair,
      int64_t max_length) const;

  // The text of the tokens, without the clean-up of spaces that Transformers
  // offers for WordPiece. Ids without a token yield nothing. InvalidArgument: a
  // negative id.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids,
                                     bool skip_special_tokens) const;

  // The number of distinct tokens, including added ones (len(tokenizer)). The
  // embedding matrix of a model may have more rows.
  int32_t vocab_size() const { return vocab_size_; }

  std::optional<int32_t> bos_id() const { return SpecialId("bos_token"); }
  std::optional<int32_t> eos_id() const { return SpecialId("eos_token"); }
  std::optional<int32_t> pad_id() const { return SpecialId("pad_token"); }

  // Absent if the vocabulary has no such token.
  std::optional<int32_t> TokenToId(std::string_view token) const;

  // Whether ChatTemplate::FromFolder finds a template in the same folder.
  bool has_chat_template() const { return has_chat_template_; }

 private:
  Tokenizer(mpsd_text_tokenizer* rust, std::map<std::string, int32_t> special,
            const FolderText& folder);
  std::optional<int32_t> SpecialId(const std::string& name) const;

  mpsd_text_tokenizer* const rust_;  // Owned, never null.
  const std::map<std::string, int32_t> special_;
  const int32_t vocab_size_;
  const std::optional<bool> truncate_left_;
  const bool has_chat_template_;
  const bool single_texts_;
};

}  // namespace mpsd::text
