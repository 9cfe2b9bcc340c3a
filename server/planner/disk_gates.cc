// SPDX-License-Identifier: Apache-2.0
#include "server/planner/disk_gates.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "server/planner/judge.h"
#include "server/planner/texts.h"

// The disk of the state folder, and the volumes that jobs read.

namespace mpsd::doctor {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 1 << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A file without a name from its creation on, so that a crash leaves nothing.
class ProbeFile {
 public:
  explicit ProbeFile(const fs::path& folder) : folder_(folder) {
    std::string name = (folder / "disk-probe-XXXXXX").string();
    fd_ = mkstemp(name.data());
    if (fd_ < 0) return;
    fcntl(fd_, F_SETFD, FD_CLOEXEC);
    unlink(name.c_str());
#ifdef F_NOCACHE
    fcntl(fd_, F_NOCACHE, 1);
#endif
  }
  ~ProbeFile() {
    if (fd_ >= 0) close(fd_);
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;
  int fd() const { return fd_; }
  absl::Status Error() const {
    return base::ErrnoStatus(errno, folder_.string());
  }

 private:
  const fs::path folder_;
  int fd_ = -1;
};

// Bytes that no file system can compress.
std::vector<uint64_t> Noise() {
  std::vector<uint64_t> numbers(kPiece / sizeof(uint64_t));
  std::mt19937_64 generator(Clock::now().time_since_epoch().count());
  std::generate(numbers.begin(), numbers.end(), std::ref(generator));
  return numbers;
}

// To the disk itself: on a Mac fsync leaves bytes in the drive's own memory.
bool Flush(int fd) {
#ifdef F_FULLFSYNC
  if (fcntl(fd, F_FULLFSYNC) == 0) return true;
#endif
  return fsync(fd) == 0;
}

// Bytes per second; sets how many were written.
absl::StatusOr<double> Write(const ProbeFile& file, const DiskProbe& probe,
                             int64_t* written) {
  std::vector<uint64_t> piece = Noise();
  const Clock::time_point start = Clock::now();
  const double patience = absl::ToDoubleSeconds(probe.patience);
  while (*written < probe.bytes &&
         (*written == 0 || SecondsSince(start) < patience)) {
    // No two pieces are equal.
    piece[0] += 1;
    const ssize_t n = write(file.fd(), piece.data(), kPiece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file.Error();
    *written += n;
  }
  if (!Flush(file.fd())) return file.Error();
  return static_cast<double>(*written) / std::max(SecondsSince(start), 1e-6);
}

absl::StatusOr<double> Read(const ProbeFile& file, const DiskProbe& probe,
                            int64_t written) {
#ifdef POSIX_FADV_DONTNEED
  posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
#endif
  std::vector<char> piece(kPiece);
  const Clock::time_point start = Clock::now();
  const double patience = absl::ToDoubleSeconds(probe.patience);
  int64_t read = 0;
  while (read < written && (read == 0 || SecondsSince(start) < patience)) {
    const ssize_t n = pread(file.fd(), piece.data(), kPiece, read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file.Error();
    if (n == 0) break;
    read += n;
  }
  return static_cast<double>(read) / std::max(SecondsSince(start), 1e-6);
}

}  // namespace

absl::StatusOr<DiskSpeed> MeasureDisk(const DiskProbe& probe) {
  std::error_code error;
  const fs::space_info space = fs::space(probe.folder, error);
  if (error) {
    return base::ErrnoStatus(error.value(), probe.folder.string());
  }
  const auto needed =
      static_cast<uintmax_t>(probe.keep_free_bytes + 2 * probe.bytes);
  if (space.available < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat(probe.folder.string(), ": the disk is nearly full"));
  }
  const ProbeFile file(probe.folder);
  if (file.fd() < 0) return file.Error();
  int64_t written = 0;
  ASSIGN_OR_RETURN(const double write, Write(file, probe, &written));
  ASSIGN_OR_RETURN(const double read, Read(file, probe, written));
  return DiskSpeed{write, read, absl::Now()};
}

namespace {

using runbook::Finding;

Finding FreeGate(const Facts& facts, const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "disk.free";
  const Disk& disk = facts.disk;
  if (!disk.free_bytes) return NotTold(kName);
  const auto free = static_cast<double>(*disk.free_bytes);
  std::string found = absl::StrCat(BytesText(free), " free");
  if (disk.size_bytes) {
    absl::StrAppend(&found, " of ",
                    BytesText(static_cast<double>(*disk.size_bytes)));
  }
  const auto least = static_cast<double>(disk.min_free_bytes);
  if (free < least) {
    return With(Fail(kName, found,
                     "No job starts below --min-free-bytes: free space; "
                     "`mpsctl gc` shows what can be removed."),
                free, least, "bytes");
  }
  const double wanted = thresholds.Get("doctor.disk_free");
  if (free >= wanted) return With(Pass(kName, found), free, wanted, "bytes");
  return With(Warn(kName, found,
                   "Free space before a long job: `mpsctl gc` shows what can "
                   "be removed."),
              free, wanted, "bytes");
}

Finding SpeedGate(const char* name, double speed, absl::Duration age,
                  double least) {
  std::string found = absl::StrCat(BytesText(speed), "/s");
  if (age > absl::Minutes(2)) {
    absl::StrAppend(&found, ", measured ", AgeText(age), " ago");
  }
  if (speed >= least) {
    return With(Pass(name, found), speed, least, "bytes/s");
  }
  return With(Warn(name, found,
                   "Checkpoints and models wait for this disk: put the state "
                   "folder on a faster one (--state-dir)."),
              speed, least, "bytes/s");
}

void JudgeSpeed(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings) {
  const Disk& disk = facts.disk;
  if (!disk.speed) {
    const std::string why = disk.speed_problem.empty()
                                ? "not measured: `mpsctl doctor --deep` does"
                                : "not measured: " + disk.speed_problem;
    findings.push_back(NotTold("disk.write", why));
    findings.push_back(NotTold("disk.read", why));
    return;
  }
  const absl::Duration age = facts.time - disk.speed->time;
  const double least = thresholds.Get("doctor.disk_speed");
  findings.push_back(
      SpeedGate("disk.write", disk.speed->write_bytes_per_second, age, least));
  findings.push_back(
      SpeedGate("disk.read", disk.speed->read_bytes_per_second, age, least));
}

Finding MountGate(const FolderMount& folder) {
  const std::string name = absl::StrCat("mount.", folder.what);
  if (!folder.mount) return NotTold(name);
  const host::Mount& mount = *folder.mount;
  const std::string found =
      absl::StrCat(Foreign(folder.folder), " on ", Foreign(mount.type),
                   mount.network ? ", a network volume from " : " of ",
                   Foreign(mount.source));
  if (mount.network && folder.what == "state") {
    return Fail(name, found,
                "A database on a network volume may be lost, and its locks do "
                "not hold: move the state folder to a disk of this machine.");
  }
  if (mount.network) {
    return Warn(name, found,
                "Each start waits for the network, and its stalls look like "
                "slow training: copy it to a disk of this machine.");
  }
  // Models and data are only read.
  if (mount.read_only && folder.what == "state") {
    return Fail(name, found + ", mounted read-only",
                "Mount it for writing: mpsd keeps everything there.");
  }
  return Pass(name, found);
}

}  // namespace

void JudgeDisk(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings) {
  findings.push_back(FreeGate(facts, thresholds));
  JudgeSpeed(facts, thresholds, findings);
  for (const FolderMount& folder : facts.mounts) {
    findings.push_back(MountGate(folder));
  }
}

}  // namespace mpsd::doctor
