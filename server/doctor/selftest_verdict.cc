// SPDX-License-Identifier: Apache-2.0
#include "server/doctor/selftest_verdict.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/json_depth.h"
#include "core/base/small_file.h"
#include "server/doctor/texts.h"

namespace mpsd::doctor {
namespace {

constexpr size_t kLargestVerdict = 8 << 20;

std::string TextOf(const nlohmann::json& object, const char* name) {
  const auto text = object.find(name);
  return text != object.end() && text->is_string()
             ? Foreign(text->get_ref<const std::string&>())
             : "";
}

}  // namespace

Selftest ReadSelftest(const std::filesystem::path& path) {
  Selftest selftest;
  const auto text = base::ReadSmallFile(path, kLargestVerdict);
  if (!text.ok()) return selftest;
  const auto verdict = base::ParseTree<nlohmann::json>(*text);
  if (!verdict.is_object()) return selftest;
  const auto passed = verdict.find("passed");
  if (passed == verdict.end() || !passed->is_boolean()) return selftest;
  selftest.state =
      passed->get<bool>() ? Selftest::State::kPassed : Selftest::State::kFailed;
  selftest.summary = TextOf(verdict, "summary");
  const auto identity = verdict.find("identity");
  if (identity != verdict.end() && identity->is_object()) {
    selftest.device = TextOf(*identity, "device");
  }
  struct stat file;
  if (stat(path.c_str(), &file) == 0) {
    selftest.time = absl::FromTimeT(file.st_mtime);
  }
  return selftest;
}

}  // namespace mpsd::doctor
