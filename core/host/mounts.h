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
  std::string point;   // the folder, "/" say
  std::string type;    // "apfs", "ext4", "nfs4" …
  std::string source;  // the device, or the server and its folder
  bool network = false;
  bool read_only = false;
};

// All mounts, the latest last; none of them is asked, so that a server that is
// away holds nobody up.
std::vector<Mount> ListMounts();

// The mount that `path`, absolute, lies on, whether or not the path exists.
// Links in the path are followed up to the first network volume, which is not
// touched. nullopt where no mount of `table` holds the path.
std::optional<Mount> MountOf(const std::filesystem::path& path,
                             const std::vector<Mount>& table);

// Whether a file system of this type has its files on another machine: NFS,
// SMB, AFP, sshfs, clusters' file systems …
bool IsNetworkType(std::string_view type);

// The text of /proc/self/mounts.
std::vector<Mount> ParseMounts(std::string_view text);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_MOUNTS_H_
