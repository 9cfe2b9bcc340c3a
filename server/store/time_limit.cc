// SPDX-License-Identifier: Apache-2.0
#include "server/store/time_limit.h"

#include <sqlite3.h>

namespace mpsd::store {
namespace {

// Between two looks at the clock SQLite's machine takes so many: a fraction of
// a millisecond, or the pages of a few texts.
constexpr int kInstructions = 1000;

}  // namespace

TimeLimit::TimeLimit(Connection& connection, absl::Duration limit)
    : handle_(connection.database().getHandle()),
      end_(std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(limit)) {
  sqlite3_progress_handler(handle_, kInstructions, &TimeLimit::IsOver, this);
}

TimeLimit::~TimeLimit() {
  sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
}

int TimeLimit::IsOver(void* limit) {
  const auto* self = static_cast<const TimeLimit*>(limit);
  return std::chrono::steady_clock::now() < self->end_ ? 0 : 1;
}

}  // namespace mpsd::store
