// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BALLAST_H_
#define MPSD_SERVER_JOBS_BALLAST_H_

#include <cstdint>
#include <filesystem>

// A file that takes room on the state folder's disk and is thrown off where the
// disk is full: to delete a job its row must go first, and that takes room.
namespace mpsd::jobs {

inline constexpr int64_t kBallastBytes = 8 << 20;

// STATE/ballast.
std::filesystem::path BallastPath(const std::filesystem::path& jobs_dir);

// Makes it where there is none and the disk has eight times as much free.
void KeepBallast(const std::filesystem::path& path);

// Whether there was one.
bool ThrowOffBallast(const std::filesystem::path& path);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BALLAST_H_
