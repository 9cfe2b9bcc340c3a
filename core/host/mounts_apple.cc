// SPDX-License-Identifier: Apache-2.0
#include <sys/mount.h>
#include <sys/param.h>

#include "core/host/mounts.h"

namespace mpsd::host {

// MNT_NOWAIT: the kernel's data, without accessing the volumes.
std::vector<Mount> ListMounts() {
  const int room = getfsstat(nullptr, 0, MNT_NOWAIT);
  if (room <= 0) return {};
  // Some more, for volumes mounted meanwhile.
  std::vector<struct statfs> list(static_cast<size_t>(room) + 8);
  const int count = getfsstat(
      list.data(), static_cast<int>(list.size() * sizeof(struct statfs)),
      MNT_NOWAIT);
  std::vector<Mount> mounts;
  for (int i = 0; i < count; ++i) {
    const struct statfs& entry = list[static_cast<size_t>(i)];
    Mount mount;
    mount.point = entry.f_mntonname;
    mount.type = entry.f_fstypename;
    mount.source = entry.f_mntfromname;
    // A FUSE volume may claim to be local.
    mount.network =
        (entry.f_flags & MNT_LOCAL) == 0 || IsNetworkType(mount.type);
    mount.read_only = (entry.f_flags & MNT_RDONLY) != 0;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

}  // namespace mpsd::host
