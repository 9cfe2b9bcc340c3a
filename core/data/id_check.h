// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ID_CHECK_H_
#define MPSD_CORE_DATA_ID_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

// Sizes of the tables in which a model looks up tokens. An id beyond a table is
// an exception on the CPU; on a GPU it ends the process or reads arbitrary
// numbers.
struct IdTables {
  int64_t tokens = 0;  // vocab_size; 0: unknown, not checked
  int64_t types = 0;   // type_vocab_size; 0: the model has no such table
};

// The fault of a row's tokens, which names the first token without a table row
// and what to do; "" without a fault.
std::string TokenFault(absl::Span<const int32_t> ids, const IdTables& tables,
                       const text::Tokenizer& tokenizer);
std::string TypeFault(absl::Span<const int32_t> types, const IdTables& tables);

// The padding id: `id` if the model has a table row for it, else 0. Padding is
// masked and never reaches the loss.
int32_t PaddingWithin(int32_t id, const IdTables& tables);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ID_CHECK_H_
