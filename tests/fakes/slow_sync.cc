// SPDX-License-Identifier: Apache-2.0
// A drive that takes its time, for a program started with this library in
// LD_PRELOAD: every fsync, fdatasync and syncfs takes SLOW_SYNC_MS milliseconds
// more, and its path becomes a line of the file SLOW_SYNC_LOG. While there is a
// file SLOW_SYNC_HANG none of them comes back.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

int OpenLog() {
  const char* path = std::getenv("SLOW_SYNC_LOG");
  return path == nullptr
             ? -1
             : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

std::string PathOf(int fd) {
  char path[4096];
  const ssize_t length = readlink(
      ("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return length < 0 ? "?" : std::string(path, length);
}

int Slowly(const char* name, int fd) {
  static const int log = OpenLog();
  static const char* const delay = std::getenv("SLOW_SYNC_MS");
  static const char* const hang = std::getenv("SLOW_SYNC_HANG");
  if (delay != nullptr) usleep(std::atoi(delay) * 1000);
  while (hang != nullptr && access(hang, F_OK) == 0) usleep(10'000);
  const int result = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name))(fd);
  const std::string line = std::string(name) + " " + PathOf(fd) + "\n";
  if (log >= 0 && write(log, line.data(), line.size()) < 0) return -1;
  return result;
}

}  // namespace

extern "C" {
int fsync(int fd) { return Slowly("fsync", fd); }
int fdatasync(int fd) { return Slowly("fdatasync", fd); }
int syncfs(int fd) noexcept { return Slowly("syncfs", fd); }
}
