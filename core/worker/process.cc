// SPDX-License-Identifier: Apache-2.0
#include "core/worker/process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/data/row_errors.h"
#include "core/spec/train_spec.h"
#include "core/worker/run_job.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace mpsd::worker {
namespace {

// glibc's getrlimit takes an enum for C++, macOS's an int.
using Resource = decltype(RLIMIT_CORE);

// A limit that cannot be set is left unchanged: a job is worth more than a
// bound that matters only after another failure.
void Lower(Resource resource, rlim_t most) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  setrlimit(resource, &limit);
}

}  // namespace

void EnterCell() {
  Lower(RLIMIT_CORE, 0);
  Lower(RLIMIT_NOFILE, kMostDescriptors);
  Lower(RLIMIT_NPROC, kMostProcesses);
  umask(077);
}

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

Pulse::Pulse(absl::Duration interval, std::function<void()> beat)
    : call_(interval,
            [beat = std::move(beat), seen = base::WorkCount()]() mutable {
              const int64_t count = base::WorkCount();
              if (count != seen) beat();
              seen = count;
              return true;
            }) {}

namespace {

namespace fs = std::filesystem;

// Compares names without resolving links: on a file system without hard links
// an uploaded file is a symbolic link to its blob.
bool IsBelow(const std::string& path, const fs::path& folder) {
  const fs::path normal = fs::path(path).lexically_normal();
  const auto [at, _] =
      std::mismatch(folder.begin(), folder.end(), normal.begin(), normal.end());
  return at == folder.end();
}

// A job that cannot be read counts as uploaded; reading it fails later.
bool UploadedWhole(const fs::path& spec_path) {
  const auto text = base::ReadFile(spec_path);
  if (!text.ok()) return true;
  const auto spec = spec::ParseTrainSpec(*text, spec_path.filename().string());
  if (!spec.ok()) return true;
  const fs::path inputs = spec_path.parent_path() / "inputs";
  const auto uploaded = [&](const std::vector<std::string>& paths) {
    return std::all_of(paths.begin(), paths.end(), [&](const std::string& p) {
      return IsBelow(p, inputs);
    });
  };
  return uploaded(spec->dataset.train) && uploaded(spec->dataset.eval) &&
         uploaded(spec->dataset.predict);
}

}  // namespace

void LimitToStart(const wire::Start& start) {
  // A job that may read any file still reads only regular files: a pipe would
  // never answer, and /dev/zero never end.
  std::vector<fs::path> roots = {"/"};
  if (!start.read_roots.empty()) {
    roots.assign(start.read_roots.begin(), start.read_roots.end());
    roots.push_back(CacheFolder());
  }
  if (!start.closed_roots.empty()) {
    // mpsd links an upload to its blob where no hard link can be made.
    std::error_code error;
    for (fs::recursive_directory_iterator
             it(fs::path(start.spec_path).parent_path() / "inputs", error),
         end;
         !error && it != end; it.increment(error)) {
      std::error_code unreadable;
      if (!it->is_symlink(unreadable)) continue;
      roots.push_back(fs::read_symlink(it->path(), unreadable));
    }
  }
  base::LimitReads(base::ReadRoots(
      roots, {start.closed_roots.begin(), start.closed_roots.end()}));
  data::ShowContents(UploadedWhole(start.spec_path));
}

namespace {

bool HasReader(int pipe) {
  pollfd asked{pipe, /*events=*/0, /*revents=*/0};
  if (poll(&asked, 1, /*timeout=*/0) <= 0) return true;
  return (asked.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

}  // namespace

ReaderWatch::ReaderWatch(int pipe, absl::Duration interval,
                         std::function<void()> gone)
    : call_(interval, [pipe, gone = std::move(gone)] {
        if (HasReader(pipe)) return true;
        gone();
        return false;
      }) {}

}  // namespace mpsd::worker
