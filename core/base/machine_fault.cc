// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine_fault.h"

#include <cerrno>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mpsd::base {
namespace {

constexpr char kPayload[] = "mpsd/errno";

}  // namespace

int ErrnoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int error = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &error)) return 0;
  return error;
}

absl::Status WithErrno(absl::Status status, int error) {
  // From a view: compilers mangle Cord's constructor for a string differently,
  // and a Mac's program must find the one that Abseil exports.
  status.SetPayload(kPayload,
                    absl::Cord(absl::string_view(absl::StrCat(error))));
  return status;
}

bool IsMachineFault(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EIO:
    case EROFS:
    case ENXIO:
    case ENODEV:
    case ESTALE:
      return true;
    default:
      return false;
  }
}

}  // namespace mpsd::base
