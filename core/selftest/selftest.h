// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_SELFTEST_H_
#define MPSD_CORE_SELFTEST_SELFTEST_H_

#include <functional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/selftest/checks.h"

// Whether a device computes what training needs as the CPU does. Systems and
// libraries have got kernels wrong without a word; this finds it before a run
// does.
namespace mpsd::selftest {

struct Result {
  std::string kernel, shape;
  double error = 0, tolerance = 0;
  std::string failure;  // of an exception: its first line
  bool passed() const { return failure.empty() && error <= tolerance; }
};

struct Report {
  std::vector<Result> results;
  double seconds = 0;
  bool passed() const;
  // "2 of 48 kernels are wrong: bmm, longest sum (17 × …)"; "" when passed.
  std::string Summary() const;
};

// Runs all `checks`; an exception of torch fails its check alone. `progress`
// (may be null) gets every result. The device's random state is seeded anew.
Report RunChecks(device::Device& device, const std::vector<Check>& checks,
                 const std::function<void(const Result&)>& progress = nullptr);

// The report as a table with a line a check.
std::string ToTable(const Report& report);
std::string TableHeader();
std::string TableRow(const Result& result);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_SELFTEST_H_
