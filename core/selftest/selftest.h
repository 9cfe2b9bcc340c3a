// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_SELFTEST_H_
#define MPSD_CORE_SELFTEST_SELFTEST_H_

#include <functional>
#include <string>
#include <vector>

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

// The report as a table with one line for each check.
std::string ToTable(const Report& report);
std::string TableHeader();
std::string TableRow(const Result& result);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_SELFTEST_H_
