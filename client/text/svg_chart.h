// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_SVG_CHART_H_
#define MPSD_CLIENT_TEXT_SVG_CHART_H_

#include <string>
#include <utility>
#include <vector>

namespace mpsd::client {

// A chart of lines as an SVG element: readable alone as a file and within an
// HTML page, in light and dark, without scripts and without anything from
// elsewhere. Texts are escaped.
struct SvgChart {
  struct Curve {
    std::string name;
    std::vector<std::pair<double, double>> points;  // others than finite: gaps
    bool right_axis = false;  // measured by the scale on the right
  };
  struct Mark {
    double x = 0;
    std::string text;
  };
  enum class Scale {
    kLinear,
    kPowersOfTwo,  // of x, which is positive: equal distances for doublings
  };

  std::string title;
  std::string x_name, y_name, right_name;
  Scale x_scale = Scale::kLinear;
  std::vector<Curve> curves;  // at most 8
  std::vector<Mark> marks;    // vertical lines
  bool from_zero = true;      // both vertical scales begin at 0

  std::string Draw() const;
};

// `text` for the content and for attributes of HTML and SVG; control characters
// become U+FFFD, since no document may hold them.
std::string XmlText(const std::string& text);

// Round numbers between `low` and `high`, both included where they are round:
// at most `most`, at least two.
std::vector<double> RoundTicks(double low, double high, int most);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_SVG_CHART_H_
