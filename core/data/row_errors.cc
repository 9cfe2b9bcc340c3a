// SPDX-License-Identifier: Apache-2.0
#include "core/data/row_errors.h"

#include <atomic>

#include "core/base/text.h"

namespace mpsd::data {
namespace {

std::atomic<bool> contents_shown{true};

}  // namespace

bool ContentsShown() { return contents_shown; }

void ShowContents(bool shown) { contents_shown = shown; }

namespace {

// The index of the first value beyond `rows`; -1 without one.
int64_t FirstBeyond(absl::Span<const int32_t> values, int64_t rows) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= rows) return static_cast<int64_t>(i);
  }
  return -1;
}

}  // namespace

std::string TokenFault(absl::Span<const int32_t> ids, const IdTables& tables,
                       const text::Tokenizer& tokenizer) {
  if (tables.tokens == 0) return "";
  const int64_t at = FirstBeyond(ids, tables.tokens);
  if (at < 0) return "";
  const auto text =
      tokenizer.Decode(ids.subspan(at, 1), /*skip_special_tokens=*/false);
  return base::Cat("token ", at, " is \"", text.ok() ? *text : "",
                   "\" with the id ", ids[at], ", and the model has rows for ",
                   tables.tokens,
                   " tokens (vocab_size): the tokenizer has tokens that the "
                   "model lacks; add rows for them with Transformers' "
                   "resize_token_embeddings, or use the model's own tokenizer");
}

std::string TypeFault(absl::Span<const int32_t> types, const IdTables& tables) {
  if (tables.types == 0) return "";
  const int64_t at = FirstBeyond(types, tables.types);
  if (at < 0) return "";
  return base::Cat("token ", at, " is of type ", types[at],
                   ", and the model has rows for ", tables.types,
                   " (type_vocab_size): the tokenizer is another model's");
}

int32_t PaddingWithin(int32_t id, const IdTables& tables) {
  return tables.tokens == 0 || id < tables.tokens ? id : 0;
}

}  // namespace mpsd::data
