// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_LOCAL_FILE_H_
#define MPSD_CLIENT_LOCAL_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace mpsd::client {

// A file of this machine that the daemon needs.
struct LocalFile {
  std::string path;             // the path in job.json
  std::filesystem::path local;  // the path on this machine
  std::string sha256;
  int64_t size_bytes = 0;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_LOCAL_FILE_H_
