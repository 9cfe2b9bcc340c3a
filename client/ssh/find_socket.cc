// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/find_socket.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace mpsd::ssh {
namespace {

constexpr size_t kMostPlaces = 32;

constexpr char kScript[] =
#include "find_socket.inc"
    ;

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", R"('\'')"}}), "'");
}

}  // namespace

std::string FindSocketScript(const std::string& path) {
  return absl::StrCat("place=", Quoted(path), "\n", kScript);
}

FoundSocket ReadFoundSocket(const std::string& output) {
  FoundSocket found;
  const std::string whole = output.substr(0, output.rfind('\n') + 1);
  for (absl::string_view line : absl::StrSplit(whole, '\n')) {
    absl::ConsumeSuffix(&line, "\r");
    if (line == "mpsd-none") {
      found.none = true;
    } else if (line == "mpsd-listens") {
      found.listens = true;
    } else if (absl::ConsumePrefix(&line, "mpsd-socket ")) {
      if (!found.socket) found.socket = std::string(line);
    } else if (absl::ConsumePrefix(&line, "mpsd-looked ")) {
      if (found.looked.size() < kMostPlaces) found.looked.emplace_back(line);
    } else if (absl::ConsumePrefix(&line, "mpsd-refused ")) {
      if (found.refused.size() < kMostPlaces) found.refused.emplace_back(line);
    } else if (found.noise.empty()) {
      found.noise = std::string(line);
    }
  }
  return found;
}

}  // namespace mpsd::ssh
