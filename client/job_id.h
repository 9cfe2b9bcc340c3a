// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_JOB_ID_H_
#define MPSD_CLIENT_JOB_ID_H_

#include <optional>
#include <string>

#include "client/console.h"

namespace mpsd::client {

inline constexpr size_t kJobIdLength = 26;

// The job that `text` means: a whole id, or the beginning or end of exactly
// one, in either case of its letters. Otherwise nothing, the error printed and
// *code set: kNotFound, kBadInput where several jobs match (it lists them), or
// that of the failed call.
std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text,
                                        ExitCode* code);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_JOB_ID_H_
