// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SOCKET_GROUP_H_
#define MPSD_SERVER_SOCKET_GROUP_H_

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd {

// The number of a group, by its name or its number. NotFound for a name that no
// group has; Unavailable if the name service fails.
absl::StatusOr<gid_t> GroupNamed(const std::string& name);

// Gives a folder to the group, whose members may from then on open the files in
// it that they know by name and have access to; they may not list it. The
// errors of base::ErrnoStatus, such as PermissionDenied if this account is not
// a member of the group.
absl::Status LetThrough(const std::filesystem::path& folder, gid_t group);

}  // namespace mpsd

#endif  // MPSD_SERVER_SOCKET_GROUP_H_
