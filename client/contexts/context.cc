// SPDX-License-Identifier: Apache-2.0
#include "client/contexts/context.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/api_token.h"
#include "core/base/json_depth.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestName = 64;
constexpr int kFormat = 1;

// Members that are texts. One that is empty is left out.
struct TextMember {
  const char* name;
  std::string Context::*value;
};
constexpr TextMember kTexts[] = {
    {"server", &Context::server}, {"user", &Context::user},
    {"ca", &Context::ca_pem},     {"socket", &Context::socket},
    {"token", &Context::token},
};

bool IsNameCharacter(char c) {
  return absl::ascii_islower(static_cast<unsigned char>(c)) ||
         absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

absl::Status Expected(const std::string& what) {
  return absl::InvalidArgumentError("expected " + what);
}

}  // namespace

absl::Status CheckContextName(std::string_view name) {
  if (name == kLocalContext) {
    return absl::InvalidArgumentError(
        "the context 'local' is this machine's own daemon; choose another "
        "name");
  }
  if (name.empty() || name.size() > kLongestName ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter) ||
      !absl::ascii_isalnum(static_cast<unsigned char>(name[0]))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", base::Quotable(name), "' is no name of a context: expected 1 to ",
        kLongestName, " of a-z, 0-9 and ._-, the first a letter or a digit"));
  }
  return absl::OkStatus();
}

std::string NameForHost(std::string_view host) {
  std::string name;
  for (char c : host.substr(0, kLongestName)) {
    c = absl::ascii_tolower(static_cast<unsigned char>(c));
    name += IsNameCharacter(c) ? c : '-';
  }
  name.erase(0, std::min(name.find_first_not_of("._-"), name.size()));
  if (name.empty()) return "daemon";
  if (name == kLocalContext) return "local-port";
  return name;
}

absl::Status CheckToken(std::string_view token) {
  if (base::IsApiToken(token)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "this is no whole token: expected ", std::string(base::kApiTokenPrefix),
      " and ", base::kApiTokenBytes - base::kApiTokenPrefix.size(),
      " letters and digits, as `mpsctl token create` prints it"));
}

std::string ToText(const Context& context) {
  Json json = {{"format", kFormat}};
  for (const TextMember& member : kTexts) {
    const std::string& value = context.*member.value;
    if (!value.empty()) json[member.name] = value;
  }
  json["tls"] = context.tls;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Context> FromText(const std::string& name,
                                 std::string_view text) {
  const Json json = base::ParseTree<Json>(text);
  if (!json.is_object()) return Expected("a JSON object");
  const auto format = json.find("format");
  if (format == json.end() || !format->is_number_integer()) {
    return Expected("'format', a number");
  }
  if (*format != kFormat) {
    return absl::InvalidArgumentError(
        "written by another release of mpsctl, which this one cannot read");
  }
  Context context;
  context.name = name;
  for (const TextMember& member : kTexts) {
    const auto found = json.find(member.name);
    if (found == json.end()) continue;
    if (!found->is_string()) {
      return Expected(absl::StrCat("'", member.name, "', a text"));
    }
    context.*member.value = found->get<std::string>();
  }
  const auto tls = json.find("tls");
  if (tls == json.end() || !tls->is_boolean()) {
    return Expected("'tls', true or false");
  }
  context.tls = tls->get<bool>();
  if (context.server.empty()) return Expected("'server', HOST:PORT");
  if (!context.token.empty()) {
    if (absl::Status status = CheckToken(context.token); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'token': ", status.message()));
    }
  }
  return context;
}

}  // namespace mpsd::client
