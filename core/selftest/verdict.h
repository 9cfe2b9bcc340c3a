// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_VERDICT_H_
#define MPSD_CORE_SELFTEST_VERDICT_H_

#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/selftest/checks.h"
#include "core/selftest/selftest.h"

namespace mpsd::selftest {

// Everything that decides how kernels compute: a verdict is valid while its
// identity is unchanged.
struct Identity {
  std::string device;    // "mps"
  std::string chip;      // "Apple M4 Pro"
  std::string os_build;  // "25B78": what `sw_vers` calls the build
  std::string torch;     // "2.15.0"
  std::string mpsd;      // its version
  std::string checks;    // Coverage of the checks
  Sizes sizes;
  bool operator==(const Identity&) const = default;
};

// The identity of all checks of `device` at `sizes` on this machine.
Identity IdentityOf(const device::Device& device, std::string torch,
                    std::string mpsd, const Sizes& sizes);

// The build of the operating system: kern.osversion on a Mac, elsewhere what
// uname says of the kernel.
std::string OsBuild();

struct Verdict {
  Identity identity;
  bool passed = false;
  std::string summary;  // Report::Summary
};

// Writes the verdict and the results as JSON, atomically.
absl::Status WriteVerdict(const std::filesystem::path& path,
                          const Identity& identity, const Report& report);

// Reads what WriteVerdict wrote; absent if the file is missing or cannot be
// read, in which case the test runs again.
std::optional<Verdict> ReadVerdict(const std::filesystem::path& path);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_VERDICT_H_
