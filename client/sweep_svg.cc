// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_svg.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/sweep_text.h"
#include "client/text/format.h"
#include "client/text/svg_chart.h"
#include "core/base/json_depth.h"

namespace mpsd::client {
namespace {

constexpr double kHeight = 360, kTop = 70, kBottom = 40;
constexpr double kMargin = 90, kAxisDistance = 150;
constexpr size_t kMostTicks = 12;  // of values that are no numbers
constexpr int kMostCharacters = 22;

// The best is blue, the others grow pale towards orange (Okabe and Ito).
constexpr int kBest[] = {0, 114, 178}, kWorst[] = {230, 159, 0};

std::string Colour(double share) {
  int mixed[3];
  for (int i = 0; i < 3; ++i) {
    mixed[i] = static_cast<int>(
        std::lround(kBest[i] + share * (kWorst[i] - kBest[i])));
  }
  return absl::StrFormat("#%02x%02x%02x", mixed[0], mixed[1], mixed[2]);
}

// An upright axis: where each of its values stands, from 0 at the bottom to 1.
class Axis {
 public:
  Axis(std::string name, std::vector<std::string> values)
      : name_(std::move(name)) {
    for (std::string& value : values) {
      double number = 0;
      if (!ReadNumber(value, &number)) are_numbers_ = false;
      values_.emplace(std::move(value), 0);
    }
    if (are_numbers_) {
      PlaceNumbers();
    } else {
      PlaceTexts();
    }
  }

  const std::string& name() const { return name_; }
  std::optional<double> At(const std::string& value) const {
    const auto found = values_.find(value);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }
  // The texts beside the axis, each with its place.
  const std::vector<std::pair<double, std::string>>& ticks() const {
    return ticks_;
  }

 private:
  static bool ReadNumber(const std::string& value, double* number) {
    const auto json = base::ParseTree<nlohmann::json>(value);
    if (!json.is_number()) return false;
    *number = json.get<double>();
    return std::isfinite(*number);
  }

  void PlaceNumbers() {
    double low = INFINITY, high = -INFINITY;
    for (const auto& [value, place] : values_) {
      double number = 0;
      ReadNumber(value, &number);
      low = std::min(low, number);
      high = std::max(high, number);
    }
    if (values_.empty()) return;
    const bool logarithmic = low > 0 && high / low > 10;
    const auto scaled = [&](double number) {
      return logarithmic ? std::log(number) : number;
    };
    const double length = scaled(high) - scaled(low);
    const auto at = [&](double number) {
      return length > 0 ? (scaled(number) - scaled(low)) / length : 0.5;
    };
    std::map<double, std::string> texts;
    for (auto& [value, place] : values_) {
      double number = 0;
      ReadNumber(value, &number);
      place = at(number);
      texts[number] = value;
    }
    // Each value by name where there is room; else round numbers, or the ends.
    if (texts.size() <= kMostTicks / 2) {
      for (const auto& [number, text] : texts) {
        ticks_.emplace_back(at(number), text);
      }
    } else if (logarithmic) {
      for (const double number : {low, std::sqrt(low * high), high}) {
        ticks_.emplace_back(at(number), absl::StrFormat("%.3g", number));
      }
    } else {
      for (const double number : RoundTicks(low, high, 6)) {
        if (number < low || number > high) continue;
        ticks_.emplace_back(at(number), absl::StrFormat("%.4g", number));
      }
    }
  }

  void PlaceTexts() {
    const auto last = static_cast<double>(values_.size() - 1);
    const size_t each = (values_.size() + kMostTicks - 1) / kMostTicks;
    size_t i = 0;
    for (auto& [value, place] : values_) {
      place = last > 0 ? static_cast<double>(i) / last : 0.5;
      if (i % each == 0) ticks_.emplace_back(place, ValueText(value));
      ++i;
    }
  }

  std::string name_;
  bool are_numbers_ = true;
  std::map<std::string, double> values_;  // the places, by value
  std::vector<std::pair<double, std::string>> ticks_;
};

class Picture {
 public:
  explicit Picture(const v1::Sweep& sweep) : sweep_(sweep) {
    const std::vector<std::string> names = ParameterNames(sweep);
    for (int i = 0; i < sweep.parameters_size(); ++i) {
      std::vector<std::string> values;
      for (const auto& child : sweep.children()) {
        if (i < child.values_size()) values.push_back(child.values(i));
      }
      axes_.emplace_back(names[static_cast<size_t>(i)], std::move(values));
    }
    std::vector<std::string> metrics;
    for (const auto& child : sweep.children()) {
      if (child.has_metric()) metrics.push_back(MetricOf(child));
    }
    axes_.emplace_back(sweep.metric(), std::move(metrics));
    width_ =
        2 * kMargin + kAxisDistance * static_cast<double>(axes_.size() - 1);
  }

  std::string Draw() {
    const std::string title = absl::StrCat(
        "Sweep ", sweep_.name().empty() ? sweep_.id() : sweep_.name());
    absl::StrAppendFormat(
        &out_,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" "
        "role=\"img\" font-family=\"sans-serif\" font-size=\"12\" "
        "fill=\"currentColor\">\n",
        width_, kHeight);
    absl::StrAppend(&out_, "<title>", XmlText(title), "</title>\n");
    Text(width_ / 2, 22, "middle", title, "font-size=\"15\"");
    // The best last, so that nothing covers it.
    for (int i = sweep_.children_size() - 1; i >= 0; --i) {
      Line(sweep_.children(i));
    }
    for (size_t i = 0; i < axes_.size(); ++i) Upright(i);
    return out_ + "</svg>\n";
  }

 private:
  static std::string MetricOf(const v1::SweepChild& child) {
    return absl::StrFormat("%.17g", child.metric());
  }
  static double AtX(size_t axis) {
    return kMargin + kAxisDistance * static_cast<double>(axis);
  }
  static double AtY(double place) {
    return kHeight - kBottom - place * (kHeight - kTop - kBottom);
  }

  void Text(double x, double y, const char* anchor, const std::string& text,
            const char* more = "") {
    absl::StrAppendFormat(&out_,
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>",
                          x, y, anchor, more);
    absl::StrAppend(&out_, XmlText(Cut(text, kMostCharacters)), "</text>\n");
  }

  void Upright(size_t index) {
    const Axis& axis = axes_[index];
    const double x = AtX(index);
    absl::StrAppendFormat(&out_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                          "y2=\"%.1f\" stroke=\"currentColor\"/>\n",
                          x, AtY(1), x, AtY(0));
    Text(x, kTop - 22, "middle", axis.name());
    for (const auto& [place, text] : axis.ticks()) {
      absl::StrAppendFormat(&out_,
                            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                            "y2=\"%.1f\" stroke=\"currentColor\"/>\n",
                            x - 3, AtY(place), x + 3, AtY(place));
      Text(x + 7, AtY(place) + 4, "start", text);
    }
  }

  void Line(const v1::SweepChild& child) {
    std::string path;
    size_t points = 0;
    for (size_t i = 0; i < axes_.size(); ++i) {
      const bool is_metric = i + 1 == axes_.size();
      if (is_metric ? !child.has_metric()
                    : static_cast<int>(i) >= child.values_size()) {
        break;
      }
      const std::string value =
          is_metric ? MetricOf(child) : child.values(static_cast<int>(i));
      const std::optional<double> place = axes_[i].At(value);
      if (!place) break;
      absl::StrAppendFormat(&path, "%s%.1f %.1f", points == 0 ? "M" : "L",
                            AtX(i), AtY(*place));
      ++points;
    }
    const bool best = child.rank() == 1;
    const double last = std::max(1, sweep_.children_size() - 1);
    const double share = std::max(0, child.rank() - 1) / last;
    absl::StrAppend(
        &out_, "<path d=\"", path, "\" fill=\"none\" stroke=\"",
        child.rank() > 0 ? Colour(std::min(1.0, share)) : "#7f7f7f",
        "\" stroke-width=\"", best ? 4 : 1.5, "\" stroke-opacity=\"",
        best ? "1" : "0.7",
        child.rank() > 0 ? "\">" : "\" stroke-dasharray=\"4 4\">", "<title>",
        XmlText(absl::StrCat(
            child.name().empty() ? child.job_id() : child.name(), ": ",
            child.has_metric()
                ? absl::StrCat(sweep_.metric(), " ", child.metric())
                : "no value")),
        "</title></path>\n");
  }

  const v1::Sweep& sweep_;
  std::vector<Axis> axes_;  // of the parameters, and of the metric
  double width_ = 0;
  std::string out_;
};

}  // namespace

std::string SweepSvg(const v1::Sweep& sweep) { return Picture(sweep).Draw(); }

}  // namespace mpsd::client
