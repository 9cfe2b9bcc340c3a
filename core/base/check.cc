// SPDX-License-Identifier: Apache-2.0
#include "core/base/check.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace mpsd::base::internal {
namespace {

// POSIX's _POSIX_PIPE_BUF: writes of up to this many bytes to a pipe are
// atomic, so that lines of other threads do not interleave.
constexpr size_t kLongestLine = 512;
constexpr int kPatienceMs = 1000;

// `length` is what snprintf returned for `line`.
[[noreturn]] void Abort(char (&line)[kLongestLine], int length) {
  const size_t size =
      std::clamp<size_t>(length < 0 ? 0 : length, 1, kLongestLine - 1);
  line[size - 1] = '\n';
  // The reader of stderr may have stopped reading: a daemon that waits for the
  // pipe to drain would hang instead of ending.
  pollfd stderr_ready = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&stderr_ready, 1, kPatienceMs) == 1) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, size);
  }
  std::abort();
}

struct Digits {
  explicit Digits(Number number) {
    if (number.negative) {
      std::snprintf(text, sizeof(text), "%lld",
                    static_cast<long long>(number.bits));
    } else {
      std::snprintf(text, sizeof(text), "%llu",
                    static_cast<unsigned long long>(number.bits));
    }
  }

  char text[24];
};

}  // namespace

void FailCheck(const char* invariant, const char* file, int line) {
  char text[kLongestLine];
  Abort(text, std::snprintf(text, sizeof(text), "%s:%d: check failed: %s\n",
                            file, line, invariant));
}

void FailCheck(Number a, const char* relation, Number b, const char* invariant,
               const char* file, int line) {
  char text[kLongestLine];
  Abort(text,
        std::snprintf(text, sizeof(text), "%s:%d: check failed: %s: %s %s %s\n",
                      file, line, invariant, Digits(a).text, relation,
                      Digits(b).text));
}

}  // namespace mpsd::base::internal
