// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/selftest.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

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
  return absl::StrCat(Padded(kernel, 52), " ", Padded(shape, 43), " ",
                      Padded(error, 10), " ", Padded(tolerance, 10), " ",
                      verdict, "\n");
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

namespace {

using nlohmann::json;

json ToJson(const Sizes& s) {
  return {s.width,    s.inner,      s.heads, s.kv_heads,
          s.head_dim, s.vocabulary, s.rows,  s.length};
}

json ToJson(const Identity& identity) {
  return {{"device", identity.device},      {"chip", identity.chip},
          {"os_build", identity.os_build},  {"torch", identity.torch},
          {"mpsd", identity.mpsd},          {"checks", identity.checks},
          {"sizes", ToJson(identity.sizes)}};
}

// JSON has no infinity.
json Number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json ToJson(const Result& r) {
  json object = {{"kernel", r.kernel},
                 {"shape", r.shape},
                 {"error", Number(r.error)},
                 {"tolerance", r.tolerance},
                 {"passed", r.passed()}};
  if (!r.failure.empty()) object["failure"] = r.failure;
  return object;
}

std::optional<Sizes> ReadSizes(const json& list) {
  if (!list.is_array() || list.size() != 8) return std::nullopt;
  Sizes s;  // in ToJson's order
  int64_t* const fields[] = {&s.width,    &s.inner,      &s.heads, &s.kv_heads,
                             &s.head_dim, &s.vocabulary, &s.rows,  &s.length};
  for (size_t i = 0; i < 8; ++i) {
    if (!list[i].is_number_integer()) return std::nullopt;
    *fields[i] = list[i].get<int64_t>();
  }
  return s;
}

std::optional<std::string> Text(const json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string()) return std::nullopt;
  return it->get<std::string>();
}

std::optional<Identity> ReadIdentity(const json& object) {
  if (!object.is_object() || !object.contains("sizes")) return std::nullopt;
  Identity identity;
  const std::pair<const char*, std::string*> fields[] = {
      {"device", &identity.device},     {"chip", &identity.chip},
      {"os_build", &identity.os_build}, {"torch", &identity.torch},
      {"mpsd", &identity.mpsd},         {"checks", &identity.checks}};
  for (const auto& [name, field] : fields) {
    auto text = Text(object, name);
    if (!text) return std::nullopt;
    *field = *std::move(text);
  }
  const auto sizes = ReadSizes(object["sizes"]);
  if (!sizes) return std::nullopt;
  identity.sizes = *sizes;
  return identity;
}

}  // namespace

std::string OsBuild() {
#if defined(__APPLE__)
  char build[64] = {};
  size_t size = sizeof(build) - 1;
  if (sysctlbyname("kern.osversion", build, &size, nullptr, 0) == 0) {
    return build;
  }
#endif
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.release, " ", name.version);
}

Identity IdentityOf(const device::Device& device, std::string torch,
                    std::string mpsd, const Sizes& sizes) {
  return {.device = device.name(),
          .chip = device.chip(),
          .os_build = OsBuild(),
          .torch = std::move(torch),
          .mpsd = std::move(mpsd),
          .checks = Coverage(AllChecks(sizes, device)),
          .sizes = sizes};
}

absl::Status WriteVerdict(const std::filesystem::path& path,
                          const Identity& identity, const Report& report) {
  json results = json::array();
  for (const Result& result : report.results) results.push_back(ToJson(result));
  const json verdict = {{"passed", report.passed()},
                        {"summary", report.Summary()},
                        {"seconds", report.seconds},
                        {"identity", ToJson(identity)},
                        {"results", std::move(results)}};
  return base::WriteFileAtomic(path, verdict.dump(1) + "\n");
}

std::optional<Verdict> ReadVerdict(const std::filesystem::path& path) {
  const auto text = base::ReadFile(path);
  if (!text.ok()) return std::nullopt;
  const json object = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("identity")) return std::nullopt;
  const auto passed = object.find("passed");
  if (passed == object.end() || !passed->is_boolean()) return std::nullopt;
  const auto summary = Text(object, "summary");
  auto identity = ReadIdentity(object["identity"]);
  if (!summary || !identity) return std::nullopt;
  return Verdict{*std::move(identity), passed->get<bool>(), *summary};
}

}  // namespace mpsd::selftest
