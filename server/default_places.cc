// SPDX-License-Identifier: Apache-2.0
#include "server/default_places.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <cstdint>
#endif

namespace mpsd {
namespace fs = std::filesystem;
namespace {

fs::path ProgramPath() {
#ifdef __APPLE__
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return fs::path(path.c_str());
#else
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
#endif
}

}  // namespace

fs::path DefaultStateDir() {
  const char* value = std::getenv("HOME");
  const std::string home = value != nullptr ? value : "";
  if (home.empty()) return {};
#ifdef __APPLE__
  return fs::path(home) / "Library" / "Application Support" / "mpsd";
#else
  return fs::path(home) / ".local" / "state" / "mpsd";
#endif
}

fs::path DefaultDeviceLock() {
#ifdef __APPLE__
  return "/Users/Shared/mpsd-gpu.lock";
#else
  const bool cuda = ::access("/dev/nvidiactl", F_OK) == 0;
  return cuda ? "/var/tmp/mpsd-gpu.lock" : "";
#endif
}

fs::path DefaultWorker() { return ProgramPath().parent_path() / "mpsd-worker"; }

}  // namespace mpsd
