// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/ballast.h"

#include <fstream>
#include <string>
#include <system_error>

namespace mpsd::jobs {
namespace fs = std::filesystem;

fs::path BallastPath(const fs::path& jobs_dir) {
  return jobs_dir.parent_path() / "ballast";
}

void KeepBallast(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return;
  const fs::space_info space = fs::space(path.parent_path(), error);
  if (error || space.available < 8 * uint64_t{kBallastBytes}) return;
  // Bytes that are not zero, so that no file system leaves a hole. A file that
  // a full disk cut short still reserves its part.
  std::ofstream(path, std::ios::binary) << std::string(kBallastBytes, 'b');
}

bool ThrowOffBallast(const fs::path& path) {
  std::error_code error;
  return fs::remove(path, error) && !error;
}

}  // namespace mpsd::jobs
