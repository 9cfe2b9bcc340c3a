// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_FILE_TIMES_H_
#define MPSD_CORE_BASE_FILE_TIMES_H_

#include <sys/stat.h>
#include <time.h>

namespace mpsd::base {

// When the file's bytes (mtime) or its inode (ctime) last changed: members of
// stat that macOS names differently from POSIX.
inline timespec ModificationTime(const struct stat& info) {
#ifdef __APPLE__
  return info.st_mtimespec;
#else
  return info.st_mtim;
#endif
}
inline timespec ChangeTime(const struct stat& info) {
#ifdef __APPLE__
  return info.st_ctimespec;
#else
  return info.st_ctim;
#endif
}

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_FILE_TIMES_H_
