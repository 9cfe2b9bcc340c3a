// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_NAMED_RESULT_H_
#define MPSD_CORE_SPEC_NAMED_RESULT_H_

#include <string>
#include <string_view>

namespace mpsd::spec {

// The letters of a job id, which is a ULID: Crockford's base 32.
inline constexpr std::string_view kJobIdLetters =
    "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

// Whether `text` is 26 of these letters, and so safe as a file name.
bool IsJobId(std::string_view text);

// `model` and `adapter` of job.json may name the result of another job of the
// same daemon: "job:ID". mpsd replaces it with the result's folder before the
// worker reads the spec.
inline constexpr char kNamedResult[] = "job:";

// Whether `path` claims to name a job's result, validly or not.
bool NamesResult(std::string_view path);

// The id of the job whose result `path` names; "" if `path` is not kNamedResult
// followed by a job id.
std::string JobNamedBy(std::string_view path);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_NAMED_RESULT_H_
