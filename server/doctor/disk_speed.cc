// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/disk_speed.h"

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

namespace mpsd::doctor {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 1 << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A file without a name from its making on, so that a crash leaves nothing.
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

// Bytes that no file system compresses.
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

// Bytes a second; fills in how many were written.
absl::StatusOr<double> Write(const ProbeFile& file, const DiskProbe& probe,
                             int64_t* written) {
  std::vector<uint64_t> piece = Noise();
  const Clock::time_point start = Clock::now();
  const double patience = absl::ToDoubleSeconds(probe.patience);
  while (*written < probe.bytes &&
         (*written == 0 || SecondsSince(start) < patience)) {
    // No two pieces are the same.
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
  const absl::StatusOr<double> write = Write(file, probe, &written);
  if (!write.ok()) return write.status();
  const absl::StatusOr<double> read = Read(file, probe, written);
  if (!read.ok()) return read.status();
  return DiskSpeed{*write, *read, absl::Now()};
}

}  // namespace mpsd::doctor
