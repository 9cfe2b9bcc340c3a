// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/text/abi.h"

namespace mpsd::text {

// Types passed between this room's C++ and Rust; only sources of this room
// include them.

inline mpsd_text_view View(std::string_view text) {
  return {text.data(), text.size()};
}

// Memory that the crate allocated, released at the end of the scope.
template <typename T, void (*Free)(T)>
class Received {
 public:
  Received() = default;
  ~Received() { Free(value_); }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  T* out() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
};

using ReceivedBytes = Received<mpsd_text_bytes, mpsd_text_bytes_free>;
using ReceivedRanges = Received<mpsd_text_ranges, mpsd_text_ranges_free>;
using ReceivedClassifierTokens =
    Received<mpsd_text_classifier_tokens, mpsd_text_classifier_tokens_free>;
using ReceivedIds = Received<mpsd_text_ids, mpsd_text_ids_free>;
using ReceivedSizes = Received<mpsd_text_sizes, mpsd_text_sizes_free>;
using ReceivedRows = Received<mpsd_text_rows, mpsd_text_rows_free>;
using ReceivedTokens = Received<mpsd_text_tokens, mpsd_text_tokens_free>;

// The status of a call that returned `code`; `where` begins its message.
inline absl::Status ToStatus(int code, const ReceivedBytes& error,
                             absl::string_view where) {
  if (code == MPSD_TEXT_OK) return absl::OkStatus();
  const absl::string_view fault(error->data, error->size);
  const std::string message = absl::StrCat(where, ": ", fault);
  if (code == MPSD_TEXT_INVALID) return absl::InvalidArgumentError(message);
  return absl::InternalError(message);
}

}  // namespace mpsd::text
