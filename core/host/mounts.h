// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_MOUNTS_H_
#define MPSD_CORE_HOST_MOUNTS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The file systems of the machine.
namespace mpsd::host {

struct Mount {
  std::string point;   // the mounted folder, such as "/"
  std::string type;    // "apfs", "ext4", "nfs4" …
  std::string source;  // the device, or the server and its folder
  bool network = false;
  bool read_only = false;
};

// All mounts, the latest last. None of them is accessed, so that a server that
// is down blocks no caller.
std::vector<Mount> ListMounts();

// The mount that holds the absolute `path`, whether or not the path exists.
// Links in the path are followed up to the first network volume, which is not
// accessed. nullopt if no mount of `table` holds the path.
std::optional<Mount> MountOf(const std::filesystem::path& path,
                             const std::vector<Mount>& table);

// Whether a file system of this type keeps its files on another machine: NFS,
// SMB, AFP, sshfs, cluster file systems …
bool IsNetworkType(std::string_view type);

// `text` is that of /proc/self/mounts.
std::vector<Mount> ParseMounts(std::string_view text);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_MOUNTS_H_
