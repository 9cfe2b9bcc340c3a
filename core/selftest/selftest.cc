// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/selftest.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/device/step_scope.h"

namespace mpsd::selftest {
namespace {

std::string FirstLine(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Result RunOne(device::Device& device, const Check& check) {
  Result result;
  result.kernel = check.kernel;
  result.shape = check.shape;
  result.tolerance = check.tolerance;
  const device::StepScope scope;
  // An operator that the device lacks throws: that fails its check, and the
  // others still run.
  try {
    result.error = check.error(device);
  } catch (const std::exception& e) {
    result.failure = FirstLine(e.what());
  }
  return result;
}

std::string Short(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", number);
  return text;
}

// Columns count characters, not the bytes of "×".
std::string Padded(const std::string& text, size_t width) {
  size_t characters = 0;
  for (const char c : text) characters += (c & 0xC0) != 0x80;
  return text + std::string(characters < width ? width - characters : 0, ' ');
}

std::string Row(const std::string& kernel, const std::string& shape,
                const std::string& error, const std::string& tolerance,
                const std::string& verdict) {
  return absl::StrCat(Padded(kernel, 42), Padded(shape, 44), Padded(error, 11),
                      Padded(tolerance, 11), verdict, "\n");
}

}  // namespace

bool Report::passed() const {
  return std::all_of(results.begin(), results.end(),
                     [](const Result& r) { return r.passed(); });
}

std::string Report::Summary() const {
  std::vector<std::string> wrong;
  for (const Result& r : results) {
    if (!r.passed())
      wrong.push_back(absl::StrCat(r.kernel, " (", r.shape, ")"));
  }
  if (wrong.empty()) return "";
  const size_t count = wrong.size();
  if (count > 3) wrong.resize(3);
  return absl::StrCat(count, " of ", results.size(),
                      " checks failed: ", absl::StrJoin(wrong, "; "),
                      count > 3 ? "; …" : "");
}

Report RunChecks(device::Device& device, const std::vector<Check>& checks,
                 const std::function<void(const Result&)>& progress) {
  const absl::Duration start = base::Clock::Real().Monotonic();
  Report report;
  for (const Check& check : checks) {
    report.results.push_back(RunOne(device, check));
    if (progress) progress(report.results.back());
  }
  report.seconds =
      absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
  return report;
}

std::string TableHeader() {
  return Row("kernel", "shape", "error", "tolerance", "verdict");
}

std::string TableRow(const Result& r) {
  const std::string verdict = r.passed()          ? "ok"
                              : r.failure.empty() ? "WRONG"
                                                  : "FAILED: " + r.failure;
  return Row(r.kernel, r.shape, Short(r.error), Short(r.tolerance), verdict);
}

std::string ToTable(const Report& report) {
  std::string table = TableHeader();
  for (const Result& result : report.results) table += TableRow(result);
  return table;
}

}  // namespace mpsd::selftest
