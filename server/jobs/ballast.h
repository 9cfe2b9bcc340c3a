// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_BALLAST_H_
#define MPSD_SERVER_JOBS_BALLAST_H_

#include <cstdint>
#include <filesystem>

// A file that reserves room on the state folder's disk and is removed when the
// disk is full: to delete a job its row must go first, and deleting a row takes
// room.
namespace mpsd::jobs {

inline constexpr int64_t kBallastBytes = 8 << 20;

// STATE/ballast.
std::filesystem::path BallastPath(const std::filesystem::path& jobs_dir);

// Makes the file where it is missing and the disk has eight times its size
// free.
void KeepBallast(const std::filesystem::path& path);

// Returns whether the file existed.
bool ThrowOffBallast(const std::filesystem::path& path);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_BALLAST_H_
