// SPDX-License-Identifier: Apache-2.0
#include "core/worker/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "core/base/file.h"
#include "core/spec/train_spec.h"

namespace mpsd::worker {
namespace {

std::string ProgramPath() {
#ifdef __APPLE__
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return "";
  return path.c_str();
#else
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
#endif
}

// A job that cannot be read counts as one without the option; RunJob reports
// the error.
bool AllowsCpuFallback(const std::string& job) {
  if (job.empty()) return false;
  const auto text = base::ReadFile(job);
  if (!text.ok()) return false;
  const auto spec = spec::ParseTrainSpec(*text, job);
  return spec.ok() && spec->allow_cpu_fallback;
}

}  // namespace

host::Environment NeededEnvironment(const host::Environment& current,
                                    const std::string& job) {
  return host::WorkerEnvironment(current, AllowsCpuFallback(job));
}

void EnsureEnvironment(char** argv, const std::string& job) {
  const host::Environment current = host::CurrentEnvironment();
  const host::Environment needed = NeededEnvironment(current, job);
  const std::string program = ProgramPath();
  if (needed == current || program.empty()) return;
  for (const auto& [name, value] : needed) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
  execv(program.c_str(), argv);
}

std::map<std::string, std::string> NotedEnvironment() {
  std::map<std::string, std::string> noted;
  for (const auto& [name, value] : host::CurrentEnvironment()) {
    for (const char* head : {"PYTORCH_", "OMP_", "AGX_", "MKL_"}) {
      if (name.rfind(head, 0) == 0) noted[name] = value;
    }
  }
  return noted;
}

}  // namespace mpsd::worker
