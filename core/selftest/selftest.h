// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/device/device.h"
#include "core/selftest/checks.h"

// Tests whether a device computes what training needs as the CPU does. Systems
// and libraries have computed kernels wrongly without an error; the test finds
// such a kernel before a run uses it.
namespace mpsd::selftest {

struct Result {
  std::string kernel, shape;
  double error = 0, tolerance = 0;
  std::string failure;  // an exception's first line
  bool passed() const { return failure.empty() && error <= tolerance; }
};

struct Report {
  std::vector<Result> results;
  double seconds = 0;
  bool passed() const;
  // "2 of 48 kernels are wrong: bmm, longest sum (17 × …)"; "" when passed.
  std::string Summary() const;
};

// Runs all `checks`; an exception of torch fails only its own check. `progress`
// (may be null) gets every result. Seeds the device's generator anew.
Report RunChecks(device::Device& device, const std::vector<Check>& checks,
                 const std::function<void(const Result&)>& progress = nullptr);

// A table with one line for each check.
std::string TableHeader();
std::string TableRow(const Result& result);

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
