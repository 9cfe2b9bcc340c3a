// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sign_off.h"

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/atomic_file.h"
#include "core/base/json_depth.h"
#include "core/base/sha256.h"
#include "core/base/small_file.h"

namespace mpsd::rpc {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] = "accepted.json";
constexpr size_t kFileBytes = 64 << 10;

std::string TextIn(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

std::optional<SignOff> ReadSignOff(const std::filesystem::path& folder,
                                   const std::string& result) {
  const auto text = base::ReadSmallFile(folder / kFile, kFileBytes);
  if (!text.ok()) return std::nullopt;
  const Json json = base::ParseTree<Json>(*text);
  if (!json.is_object()) return std::nullopt;
  if (TextIn(json, "result_sha256") != base::Sha256Hex(result)) {
    return std::nullopt;
  }
  SignOff sign_off;
  sign_off.by = TextIn(json, "by");
  sign_off.reason = TextIn(json, "reason");
  sign_off.noted = json.value("noted", Json()) == Json(true);
  std::string error;
  if (sign_off.by.empty() ||
      !absl::ParseTime(absl::RFC3339_full, TextIn(json, "time"), &sign_off.time,
                       &error)) {
    return std::nullopt;
  }
  return sign_off;
}

absl::Status WriteSignOff(const std::filesystem::path& folder,
                          const std::string& result, const SignOff& sign_off) {
  const Json json = {
      {"by", sign_off.by},
      {"time", absl::FormatTime(absl::RFC3339_full, sign_off.time,
                                absl::UTCTimeZone())},
      {"reason", sign_off.reason},
      {"noted", sign_off.noted},
      {"result_sha256", base::Sha256Hex(result)}};
  auto file = base::AtomicFile::Create(folder / kFile);
  if (!file.ok()) return file.status();
  absl::Status written =
      (*file)->Append(json.dump(1, ' ', false, Json::error_handler_t::replace));
  return written.ok() ? (*file)->Commit() : written;
}

}  // namespace mpsd::rpc
