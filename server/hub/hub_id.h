// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_HUB_ID_H_
#define MPSD_SERVER_HUB_HUB_ID_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace mpsd::hub {

// Checks a name that models::CheckModelName lets pass by what hubs have beyond
// it: no "--", which the cache's folder has in place of the slash, so that
// "a--b/c" and "a/b--c" were one folder; no ".."; no ".git" at the end.
// InvalidArgument.
absl::Status CheckHubId(const std::string& id);

// Whether the text is a commit, 40 lower-case hexadecimal digits.
bool IsCommit(std::string_view text);
// Whether the text is a SHA-256, 64 of them.
bool IsSha256(std::string_view text);

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_HUB_ID_H_
