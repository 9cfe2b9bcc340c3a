// SPDX-License-Identifier: Apache-2.0
// Passes an error on to the caller. Both are statements of their own, not the
// body of an `if` without braces.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// RETURN_IF_ERROR(EXPRESSION): returns the absl::Status unless it is OK.
#define RETURN_IF_ERROR(...)                                         \
  do {                                                               \
    if (absl::Status mpsd_status = (__VA_ARGS__); !mpsd_status.ok()) \
      return mpsd_status;                                            \
  } while (false)

// ASSIGN_OR_RETURN(DECLARATION, EXPRESSION): returns the status of an
// absl::StatusOr<T> that is not OK; otherwise moves its value to what the
// declaration names. A type with a comma is written `auto`.
#define ASSIGN_OR_RETURN(declaration, ...) \
  MPSD_ASSIGN_OR_RETURN(MPSD_UNIQUE(__LINE__), declaration, __VA_ARGS__)
#define MPSD_ASSIGN_OR_RETURN(temporary, declaration, ...)   \
  auto temporary = (__VA_ARGS__);                            \
  if (!temporary.ok()) return std::move(temporary).status(); \
  declaration = *std::move(temporary)
#define MPSD_UNIQUE(line) MPSD_CONCATENATE(mpsd_status_or_, line)
#define MPSD_CONCATENATE(a, b) a##b
