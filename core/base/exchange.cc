// SPDX-License-Identifier: Apache-2.0
#include "core/base/exchange.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>

#include "core/base/atomic_file.h"
#include "core/base/file.h"

namespace mpsd::base {
namespace fs = std::filesystem;
namespace {

// Returns 0 or errno.
int ExchangeAtOnce(const fs::path& a, const fs::path& b) {
#ifdef __APPLE__
  const int result = renamex_np(a.c_str(), b.c_str(), RENAME_SWAP);
#else
  const int result =
      renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
#endif
  return result == 0 ? 0 : errno;
}

int Rename(const fs::path& from, const fs::path& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// `b` is moved away first, so that a failing second rename can be undone.
int ExchangeByAThird(const fs::path& a, const fs::path& b) {
  const fs::path aside = TemporaryBeside(b);
  if (int error = Rename(b, aside); error != 0) return error;
  if (int error = Rename(a, b); error != 0) {
    Rename(aside, b);
    return error;
  }
  return Rename(aside, a);
}

bool CannotExchange(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP ||
         error == EOPNOTSUPP;
}

}  // namespace

absl::Status ExchangePaths(const fs::path& a, const fs::path& b) {
  int error = ExchangeAtOnce(a, b);
  if (CannotExchange(error)) error = ExchangeByAThird(a, b);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, b.string());
}

}  // namespace mpsd::base
