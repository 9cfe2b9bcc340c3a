// SPDX-License-Identifier: Apache-2.0
#include "core/report/run_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/check.h"
#include "core/base/sha256.h"

namespace mpsd::run_page {
namespace {

using Json = nlohmann::ordered_json;

std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// JSON texts are joined rather than parsed: there may be megabytes of them.
std::string RunText(const RunData& run) {
  const Json left_out = {{"steps", run.left_out.steps},
                         {"evaluations", run.left_out.evaluations},
                         {"events", run.left_out.events},
                         {"log_bytes", run.left_out.log_bytes}};
  return absl::StrCat(
      "{\"job\":", run.job, ",\n\"events\":[", absl::StrJoin(run.events, ",\n"),
      "],\n\"log\":", Dumped(run.log), ",\n\"files\":", Dumped(Json(run.files)),
      ",\n\"left_out\":", Dumped(left_out), "}");
}

}  // namespace

std::string RunDocument(const std::vector<RunData>& runs) {
  return absl::StrCat("{\"runs\":[",
                      absl::StrJoin(runs, ",\n",
                                    [](std::string* text, const RunData& run) {
                                      absl::StrAppend(text, RunText(run));
                                    }),
                      "]}");
}

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

namespace {

// Each point's distance from the first along the run, which is longer than its
// steps if it repeated some.
std::vector<double> Distances(const std::vector<CurvesPoint>& points) {
  std::vector<double> distances(points.size(), 0);
  for (size_t i = 1; i < points.size(); ++i) {
    const double passed = static_cast<double>(points[i].step) -
                          static_cast<double>(points[i - 1].step);
    distances[i] = distances[i - 1] + std::max(1.0, passed);
  }
  return distances;
}

// Both sides of the latest `most` places where the run went back.
std::set<size_t> Returns(const std::vector<CurvesPoint>& points, size_t most) {
  std::set<size_t> sides;
  size_t found = 0;
  for (size_t i = points.size(); i-- > 1 && found < most;) {
    if (points[i].step > points[i - 1].step) continue;
    sides.insert({i - 1, i});
    ++found;
  }
  return sides;
}

// Adds the points that represent [begin, end).
void KeepOfStretch(const std::vector<CurvesPoint>& points, size_t begin,
                   size_t end, std::set<size_t>& kept) {
  kept.insert({begin, end - 1});
  bool nonfinite_kept = false;  // a non-finite value was seen
  for (size_t curve = 0; curve < points[begin].values.size(); ++curve) {
    const auto value = [&](size_t i) { return points[i].values[curve]; };
    size_t least = end, greatest = end;
    for (size_t i = begin; i < end; ++i) {
      if (!std::isfinite(value(i))) {
        if (!nonfinite_kept) kept.insert(i);
        nonfinite_kept = true;
        continue;
      }
      if (least == end || value(i) < value(least)) least = i;
      if (greatest == end || value(i) > value(greatest)) greatest = i;
    }
    if (least != end) kept.insert({least, greatest});
  }
}

}  // namespace

std::vector<size_t> KeptPoints(const std::vector<CurvesPoint>& points,
                               size_t most) {
  base::Check(most >= 64, "there is room for a stretch");
  if (points.size() <= most) {
    std::vector<size_t> all(points.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  std::set<size_t> kept = Returns(points, most / 8);
  // First, last, non-finite, and each curve's least and greatest.
  const size_t of_stretch = 3 + 2 * points[0].values.size();
  const size_t stretches =
      std::max<size_t>(1, (most - kept.size()) / of_stretch);
  const std::vector<double> distances = Distances(points);
  const double length = (distances.back() + 1) / static_cast<double>(stretches);
  for (size_t begin = 0, end; begin < points.size(); begin = end) {
    const double stretch = std::floor(distances[begin] / length);
    end = begin + 1;
    while (end < points.size() &&
           std::floor(distances[end] / length) == stretch) {
      ++end;
    }
    KeepOfStretch(points, begin, end, kept);
  }
  return {kept.begin(), kept.end()};
}

}  // namespace mpsd::run_page
