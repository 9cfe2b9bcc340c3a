// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_svg.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_sweeps.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(SweepSvg, AnAxisForEachParameterAndALineForEachChild) {
  const std::string svg = SweepSvg(SomeSweep("S"));
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_EQ(Count(svg, "<path "), 3);
  for (const char* text : {">learning_rate<", ">lr_scheduler_type<", ">loss<",
                           ">cosine<", ">linear<", ">0.0003<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr("tiny 0: loss 0.25"));
  // The best child's line comes last and is the heavy one.
  EXPECT_GT(svg.find("tiny 0: "), svg.find("tiny 2: "));
  EXPECT_EQ(Count(svg, "stroke-width=\"4\""), 1);
  // 0.0001 to 0.001 is one power of ten and no more: at 0.0003 the line stands
  // at 2/9 of the axis.
  EXPECT_THAT(svg, HasSubstr("M90.0 264.4"));
}

TEST(SweepSvg, WideRangesAreLogarithmic) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.mutable_children(0)->set_values(0, "0.01");
  sweep.mutable_children(1)->set_values(0, "0.0001");
  sweep.mutable_children(2)->set_values(0, "0.001");
  EXPECT_THAT(SweepSvg(sweep), HasSubstr("M90.0 195.0")) << "in the middle";
}

TEST(SweepSvg, WhoHasNoValueEndsBeforeTheMetric) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.mutable_children(2)->clear_metric();
  sweep.mutable_children(2)->clear_rank();
  const std::string svg = SweepSvg(sweep);
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 1);
  EXPECT_THAT(svg, HasSubstr("tiny 2: no value"));
}

TEST(SweepSvg, TextsAreEscapedAndThereIsNoScript) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.set_name("</title><script>alert(1)</script>");
  sweep.set_metric("\"><script>");
  sweep.mutable_parameters(0)->set_field("<b>&\x1b");
  sweep.mutable_children(0)->set_name("<script>'\"");
  sweep.mutable_children(0)->set_values(1, "\"<script>\"");
  sweep.mutable_children(1)->set_values(1, "not json <script>");
  const std::string svg = SweepSvg(sweep);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("\x1b")));
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
}

TEST(SweepSvg, EmptyAndLargeSweepsAreDrawn) {
  EXPECT_THAT(SweepSvg({}), HasSubstr("</svg>"));
  v1::Sweep sweep = SomeSweep("S");
  sweep.clear_children();
  for (int i = 0; i < 500; ++i) {
    auto* child = sweep.add_children();
    child->add_values(absl::StrCat(0.001 * i));
    child->add_values(absl::StrCat("\"text ", i, "\""));
    child->set_metric(i);
    child->set_rank(i + 1);
  }
  const std::string svg = SweepSvg(sweep);
  EXPECT_EQ(Count(svg, "<path "), 500);
  EXPECT_LT(Count(svg, "<text "), 40) << "no name for each";
  sweep.mutable_children(3)->clear_values();
  EXPECT_THAT(SweepSvg(sweep), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace mpsd::client
