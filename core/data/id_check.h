// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ID_CHECK_H_
#define MPSD_CORE_DATA_ID_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

// The rows of the tables that a model looks a row's tokens up in. Beyond them
// there is an exception on the CPU, and on a GPU the end of the process or
// numbers out of anywhere.
struct IdTables {
  int64_t tokens = 0;  // vocab_size; 0: not known, nothing is checked
  int64_t types = 0;   // type_vocab_size; 0: the model has no such table
};

// What is wrong with a row's tokens, naming the first token that has no row and
// what to do; "" for nothing.
std::string TokenFault(absl::Span<const int32_t> ids, const IdTables& tables,
                       const text::Tokenizer& tokenizer);
std::string TypeFault(absl::Span<const int32_t> types, const IdTables& tables);

// What to pad with: `id` where the model has a row for it, else 0. Padding is
// masked, and never reaches the loss.
int32_t PaddingWithin(int32_t id, const IdTables& tables);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ID_CHECK_H_
