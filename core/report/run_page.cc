// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_page.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/check.h"
#include "core/base/sha256.h"

namespace mpsd::run_page {
namespace {

// kPage, kStyle, kScript and kLicence, made of core/report/page and of uPlot
// by embed.cmake.
#include "run_page_sources.inc"

constexpr std::string_view kMark =
    "<meta name=\"generator\" content=\"mpsd run page\">";

// "'sha256-…'": allows the one script or style with this text.
std::string Hash(std::string_view text) {
  return absl::StrCat(
      "'sha256-",
      absl::Base64Escape(absl::HexStringToBytes(base::Sha256Hex(text))), "'");
}

// In JSON '<' occurs only in strings, where \u003c is the same: neither
// "</script" nor "<!--" is left.
std::string WithinScript(std::string_view json) {
  return absl::StrReplaceAll(absl::string_view(json.data(), json.size()),
                             {{"<", "\\u003c"}});
}

// Replaces the names in `text` by the values. Each name occurs once, in this
// order; the values are not searched.
std::string Filled(
    std::string_view text,
    const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string page;
  for (const auto& [name, value] : values) {
    const size_t at = text.find(name);
    base::Check(at != text.npos, "page.html has every placeholder, in order");
    page.append(text.substr(0, at)).append(value);
    text.remove_prefix(at + name.size());
  }
  return page.append(text);
}

}  // namespace

std::string ContentSecurityPolicy() {
  return absl::StrCat("default-src 'none'; script-src ", Hash(kScript),
                      "; style-src ", Hash(kStyle),
                      "; img-src data:; base-uri 'none'; form-action 'none'");
}

std::string RunPage(std::string_view document) {
  return Filled(kPage, {{"@POLICY@", ContentSecurityPolicy()},
                        {"@STYLE@", std::string(kStyle)},
                        {"@LICENCE@", std::string(kLicence)},
                        {"@DOCUMENT@", WithinScript(document)},
                        {"@SCRIPT@", std::string(kScript)}});
}

bool BeginsLikeRunPage(std::string_view head) {
  return head.starts_with("<!DOCTYPE html>") &&
         head.substr(0, kHeadBytes).find(kMark) != head.npos;
}

}  // namespace mpsd::run_page
