// SPDX-License-Identifier: Apache-2.0
#include "client/text/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/utf8.h"

namespace mpsd::client {
namespace {

constexpr double kWidth = 720, kHeight = 360;
constexpr double kLeft = 76, kRight = 76, kTop = 44, kBottom = 68;
constexpr int kTicks = 6;
// Colours that people with any colour vision tell apart, and dashes for who
// prints in grey (Okabe and Ito's palette without yellow and black).
constexpr std::array<const char*, 8> kColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7",
    "#56b4e9", "#e69f00", "#7f7f7f", "#882255"};
constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // A range with a length, whatever it took.
  void Settle() {
    if (low > high) low = 0, high = 1;
    if (low == high) {
      const double more = low == 0 ? 1 : std::abs(low) / 2;
      low -= more, high += more;
    }
  }
  double Share(double value) const { return (value - low) / (high - low); }
};

std::string Number(double value) {
  const double size = std::abs(value);
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, name] : kUnits) {
    if (size >= unit) return absl::StrFormat("%.4g %s", value / unit, name);
  }
  return absl::StrFormat("%.4g", value);
}

class Drawing {
 public:
  explicit Drawing(const SvgChart& chart) : chart_(chart) {
    for (const SvgChart::Curve& curve : chart.curves) {
      for (const auto& [x, y] : curve.points) {
        if (!std::isfinite(y) || !IsPlace(x)) continue;
        x_.Take(Scaled(x));
        (curve.right_axis ? right_ : left_).Take(y);
      }
      has_right_ = has_right_ || curve.right_axis;
    }
    for (const SvgChart::Mark& mark : chart.marks) {
      if (IsPlace(mark.x)) x_.Take(Scaled(mark.x));
    }
    for (Range* range : {&left_, &right_}) {
      if (chart.from_zero) range->Take(0);
      range->Settle();
      const std::vector<double> ticks =
          RoundTicks(range->low, range->high, kTicks);
      const double step = ticks[1] - ticks[0];
      // The curves end a little below the top.
      if (range->high > ticks.back()) range->high = ticks.back() + step;
      if (range->low < ticks.front()) range->low = ticks.front() - step;
    }
    x_.Settle();
  }

  std::string Draw() {
    absl::StrAppend(
        &out_, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ",
        kWidth, " ", kHeight,
        "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" "
        "fill=\"currentColor\">\n<title>",
        XmlText(chart_.title), "</title>\n");
    Text(kWidth / 2, 20, "middle", chart_.title, "font-size=\"15\"");
    Axes();
    Marks();
    for (size_t i = 0; i < chart_.curves.size(); ++i) Curve(i);
    Legend();
    return out_ + "</svg>\n";
  }

 private:
  bool IsPlace(double x) const {
    return std::isfinite(x) &&
           (chart_.x_scale == SvgChart::Scale::kLinear || x > 0);
  }
  double Scaled(double x) const {
    return chart_.x_scale == SvgChart::Scale::kLinear ? x : std::log2(x);
  }
  double AtX(double x) const {
    return kLeft + x_.Share(Scaled(x)) * (kWidth - kLeft - kRight);
  }
  static double AtY(const Range& range, double y) {
    return kHeight - kBottom - range.Share(y) * (kHeight - kTop - kBottom);
  }

  void Text(double x, double y, const char* anchor, const std::string& text,
            const std::string& more = "") {
    absl::StrAppendFormat(&out_,
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>",
                          x, y, anchor, more);
    absl::StrAppend(&out_, XmlText(text), "</text>\n");
  }
  void Line(double x1, double y1, double x2, double y2,
            const std::string& more) {
    absl::StrAppendFormat(&out_,
                          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
                          "y2=\"%.1f\" stroke=\"currentColor\" %s/>\n",
                          x1, y1, x2, y2, more);
  }

  void Axes() {
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    for (const double tick : RoundTicks(left_.low, left_.high, kTicks)) {
      const double y = AtY(left_, tick);
      Line(kLeft, y, right, y, "stroke-opacity=\"0.15\"");
      Text(kLeft - 8, y + 4, "end", Number(tick));
    }
    if (has_right_) {
      for (const double tick : RoundTicks(right_.low, right_.high, kTicks)) {
        Text(right + 8, AtY(right_, tick) + 4, "start", Number(tick));
      }
      Text(right, kTop - 8, "end", chart_.right_name);
    }
    if (chart_.x_scale == SvgChart::Scale::kLinear) {
      for (const double tick : RoundTicks(x_.low, x_.high, kTicks)) {
        Text(AtX(tick), bottom + 18, "middle", Number(tick));
      }
    } else {
      const int step =
          std::max(1, static_cast<int>(std::ceil((x_.high - x_.low) / kTicks)));
      for (int power = static_cast<int>(std::ceil(x_.low)); power <= x_.high;
           power += step) {
        const double x = std::exp2(power);
        Text(AtX(x), bottom + 18, "middle", Number(x));
      }
    }
    Line(kLeft, bottom, right, bottom, "");
    Line(kLeft, kTop, kLeft, bottom, "");
    Text(kLeft, kTop - 8, "start", chart_.y_name);
    Text((kLeft + right) / 2, bottom + 36, "middle", chart_.x_name);
  }

  // Each name on a line of its own: two marks may stand side by side.
  void Marks() {
    double baseline = kTop + 12;
    for (const SvgChart::Mark& mark : chart_.marks) {
      if (!IsPlace(mark.x)) continue;
      const double x = AtX(mark.x);
      Line(x, kTop, x, kHeight - kBottom,
           "stroke-dasharray=\"4 4\" stroke-opacity=\"0.6\"");
      const bool near_end = x > kWidth - kRight - 120;
      Text(near_end ? x - 4 : x + 4, baseline, near_end ? "end" : "start",
           mark.text);
      baseline += 14;
    }
  }

  void Curve(size_t index) {
    const SvgChart::Curve& curve = chart_.curves[index];
    const Range& range = curve.right_axis ? right_ : left_;
    std::string path, dots;
    bool pen_down = false;
    for (const auto& [x, y] : curve.points) {
      if (!IsPlace(x) || !std::isfinite(y)) {
        pen_down = false;
        continue;
      }
      absl::StrAppendFormat(&path, "%s%.1f %.1f", pen_down ? "L" : "M", AtX(x),
                            AtY(range, y));
      absl::StrAppendFormat(&dots, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>",
                            AtX(x), AtY(range, y));
      pen_down = true;
    }
    absl::StrAppend(&out_, "<path d=\"", path, "\" fill=\"none\" stroke=\"",
                    Colour(index), "\" stroke-width=\"2\" stroke-dasharray=\"",
                    Dash(index), "\"/>\n<g fill=\"", Colour(index), "\">", dots,
                    "</g>\n");
  }

  void Legend() {
    double x = kLeft;
    for (size_t i = 0; i < chart_.curves.size(); ++i) {
      const std::string& name = chart_.curves[i].name;
      absl::StrAppendFormat(
          &out_,
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
          "stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
          x, kHeight - 14, x + 24, kHeight - 14, Colour(i), Dash(i));
      Text(x + 30, kHeight - 10, "start", name);
      x += 48 + 7.0 * static_cast<double>(name.size());
    }
  }

  static const char* Colour(size_t index) {
    return kColours[index % kColours.size()];
  }
  static const char* Dash(size_t index) {
    return kDashes[index % kDashes.size()];
  }

  const SvgChart& chart_;
  Range x_, left_, right_;
  bool has_right_ = false;
  std::string out_;
};

}  // namespace

std::string SvgChart::Draw() const { return Drawing(*this).Draw(); }

std::string XmlText(const std::string& text) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = base::CharacterLength(rest);
    const auto c = static_cast<unsigned char>(rest.front());
    const bool is_control = c < 0x20 && c != '\n' && c != '\t';
    if (length == 0 || is_control || c == 0x7F) {
      out += "\xef\xbf\xbd";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::vector<double> RoundTicks(double low, double high, int most) {
  if (!(high > low) || !std::isfinite(low) || !std::isfinite(high)) {
    return {low, low + 1};
  }
  const double rough = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (std::floor(high / step) - std::ceil(low / step) + 1 <= most) break;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  for (int i = 0; i <= most; ++i) {
    const double tick = (first + i) * step;
    if (tick > high * (1 + 1e-12) + 1e-300) break;
    ticks.push_back(tick);
  }
  while (ticks.size() < 2) {
    ticks.push_back(ticks.empty() ? low : ticks.back() + step);
  }
  return ticks;
}

}  // namespace mpsd::client
