// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_TIME_LIMIT_H_
#define MPSD_SERVER_STORE_TIME_LIMIT_H_

#include <chrono>

#include "absl/time/time.h"
#include "server/store/connection.h"

namespace mpsd::store {

// While it exists, what runs on the connection ends `limit` after it was made,
// with an error that StatusOf makes DeadlineExceeded. One of a connection at a
// time.
class TimeLimit {
 public:
  TimeLimit(Connection& connection, absl::Duration limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static int IsOver(void* limit);

  sqlite3* const handle_;
  const std::chrono::steady_clock::time_point end_;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_TIME_LIMIT_H_
