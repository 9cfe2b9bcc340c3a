// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_JOB_ID_H_
#define MPSD_CLIENT_JOB_ID_H_

#include <optional>
#include <string>
#include <vector>

#include "client/console.h"

namespace mpsd::client {

inline constexpr size_t kJobIdLength = 26;

// The fewest characters of an id that a verb takes.
enum class Care : size_t {
  kLooks = 4,
  kChanges = 6,  // a verb that ends, removes or starts jobs
};

// The job that `text` means: a whole id, or the beginning or end of exactly
// one, in either case of its letters; the end of one that has not ended or is
// among the latest 1,000. Otherwise nothing, the error printed and *code set:
// kNotFound, kBadInput where `text` is too short or no part of an id or several
// jobs match (it lists them), or that of the failed call.
std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text, ExitCode* code,
                                        Care care = Care::kLooks);

// Each of `texts` in turn, a job that two of them mean once; nothing where one
// of them means none, so that nothing happens to the others.
std::optional<std::vector<std::string>> ResolveJobIds(
    const Console& console, const std::vector<std::string>& texts,
    ExitCode* code, Care care);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_JOB_ID_H_
