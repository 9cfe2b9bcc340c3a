// SPDX-License-Identifier: Apache-2.0
#include "core/host/machine.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "absl/strings/str_split.h"

namespace mpsd::host {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 32;

constexpr std::string_view kNetworkTypes[] = {
    "afpfs", "afs",     "beegfs", "ceph",      "cifs",   "coda",     "davfs",
    "ftp",   "gcsfuse", "gfs2",   "glusterfs", "gpfs",   "juicefs",  "lustre",
    "ncpfs", "nfs",     "nfs3",   "nfs4",      "ocfs2",  "orangefs", "rclone",
    "s3fs",  "smb3",    "smbfs",  "sshfs",     "webdav", "moosefs"};

// "\040" means a space.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) {
      return text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) &&
        octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 +
                               (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool Holds(const std::string& point, const std::string& path) {
  if (point == "/") return true;
  return path.starts_with(point) &&
         (path.size() == point.size() || path[point.size()] == '/');
}

// By the path's text only; of mounts at one point the latest counts.
const Mount* Find(const std::string& path, const std::vector<Mount>& table) {
  const Mount* found = nullptr;
  for (const Mount& mount : table) {
    if (Holds(mount.point, path) &&
        (found == nullptr || mount.point.size() >= found->point.size())) {
      found = &mount;
    }
  }
  return found;
}

}  // namespace

bool IsNetworkType(std::string_view type) {
  // FUSE's types are named after the program: "fuse.sshfs".
  if (type.starts_with("fuse.")) type.remove_prefix(5);
  if (type.starts_with("osxfuse") || type.starts_with("macfuse")) return true;
  return std::find(std::begin(kNetworkTypes), std::end(kNetworkTypes), type) !=
         std::end(kNetworkTypes);
}

std::vector<Mount> ParseMounts(std::string_view text) {
  std::vector<Mount> mounts;
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(text), '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 4) continue;
    Mount mount;
    mount.source = Unescaped(fields[0]);
    mount.point = Unescaped(fields[1]);
    mount.type = fields[2];
    mount.network = IsNetworkType(mount.type);
    const std::vector<std::string> options = absl::StrSplit(fields[3], ',');
    mount.read_only =
        std::find(options.begin(), options.end(), "ro") != options.end();
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<Mount> MountOf(const fs::path& path,
                             const std::vector<Mount>& table) {
  fs::path rest = path.lexically_normal();
  int links = 0;
  fs::path whole = "/";
  for (auto part = rest.begin(); part != rest.end();) {
    if (*part == "/" || part->empty()) {
      ++part;
      continue;
    }
    const fs::path next = whole / *part;
    const Mount* mount = Find(next.string(), table);
    if (mount != nullptr && mount->network) return *mount;
    std::error_code none;
    const fs::path target = fs::read_symlink(next, none);
    ++part;
    if (none || ++links > kMostLinks) {
      whole = next;
      continue;
    }
    // The walk restarts with the link's target.
    fs::path resolved = target.is_absolute() ? target : whole / target;
    for (; part != rest.end(); ++part) resolved /= *part;
    rest = resolved.lexically_normal();
    part = rest.begin();
    whole = "/";
  }
  const Mount* mount = Find(whole.string(), table);
  if (mount == nullptr) return std::nullopt;
  return *mount;
}

namespace {

// glibc's getrlimit takes an enum for C++, macOS's an int.
using Resource = decltype(RLIMIT_NOFILE);

std::optional<int64_t> SoftLimit(Resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

ProcessLimits ReadProcessLimits() {
  return {SoftLimit(RLIMIT_NOFILE), SoftLimit(RLIMIT_NPROC)};
}

}  // namespace mpsd::host
