// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_FILE_HOST_H_
#define MPSD_CORE_HOST_FILE_HOST_H_

#include <filesystem>
#include <memory>
#include <string>

#include "core/host/host.h"

namespace mpsd::host {

// A machine whose state a JSON file gives, so that tests of the real programs
// can pull the plug: {"power_source": "battery", "thermal": "heavy", …}, with
// Reading's member names and the levels' names. Each Read() reads the file
// again. A missing file reports nothing; a half-written one keeps the last
// complete content.
class FileHost final : public Host {
 public:
  explicit FileHost(std::filesystem::path path) : path_(std::move(path)) {}

  Reading Read() override;
  std::unique_ptr<Awake> KeepAwake(const std::string&) override {
    return nullptr;
  }

 private:
  const std::filesystem::path path_;
  Reading last_;
};

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_FILE_HOST_H_
