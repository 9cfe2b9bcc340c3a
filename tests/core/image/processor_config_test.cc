// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/image/processor.h"
#include "gtest/gtest.h"

namespace mpsd::image {
namespace {

ProcessorConfig Parse(const std::string& json) {
  auto config = ParseProcessorConfig(json, "p.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ProcessorConfig();
}

TEST(ParseProcessorConfig, HasTheDefaultsOfTheVitProcessor) {
  EXPECT_EQ(Parse("{}"), ProcessorConfig());
  EXPECT_EQ(Parse(R"({"resample": null, "image_mean": null, "do_resize": null,
                      "size": null, "rescale_factor": null})"),
            ProcessorConfig());
}

TEST(ParseProcessorConfig, TakesEveryFormOfASize) {
  EXPECT_EQ(Parse(R"({"size": 32})").width, 32);
  const ProcessorConfig both = Parse(R"({"size": {"height": 3, "width": 4}})");
  EXPECT_EQ(both.height, 3);
  EXPECT_EQ(both.width, 4);
  const ProcessorConfig crop = Parse(
      R"({"size": {"shortest_edge": 9}, "do_center_crop": true,
          "crop_size": 8})");
  EXPECT_EQ(crop.shortest_edge, 9);
  EXPECT_EQ(crop.crop_height, 8);
  EXPECT_EQ(crop.crop_width, 8);
}

TEST(ParseProcessorConfig, ReadsBackWhatToJsonWrites) {
  ProcessorConfig config;
  config.do_rescale = false;
  config.height = 28;
  config.resample = Filter::kBicubic;
  config.image_std = {0.25, 0.5, 0.125};
  EXPECT_EQ(Parse(ToJson(config)), config);
  config.shortest_edge = 40;
  config.height = 224;
  config.do_center_crop = true;
  config.crop_width = 30;
  EXPECT_EQ(Parse(ToJson(config)), config);
}

TEST(ParseProcessorConfig, LeavesOtherNamesAlone) {
  EXPECT_EQ(Parse(R"({"image_processor_type": "ViTFeatureExtractor",
                      "do_convert_rgb": true, "_valid_processor_keys": [1],
                      "do_pad": false})"),
            ProcessorConfig());
}

struct Bad {
  const char* json;
  absl::StatusCode code;
  const char* message;
};

TEST(ParseProcessorConfig, SaysWhatItCannotDo) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  for (const Bad& bad : {
           Bad{R"({"image_processor_type": "CLIPImageProcessor"})",
               kUnimplemented,
               "p.json:1: image_processor_type: the string "
               "\"CLIPImageProcessor\" is not supported; there is "
               "ViTImageProcessor"},
           Bad{R"({"do_pad": true})", kUnimplemented,
               "p.json:1: do_pad: padding is not supported"},
           Bad{R"({"size": {"longest_edge": 5}})", kUnimplemented,
               "p.json:1: size: longest_edge is not supported; there are "
               "height and width, and shortest_edge"},
           Bad{R"({"size": {"height": 5}})", kInvalid,
               "p.json:1: size: expected an integer, or height and width, or "
               "shortest_edge"},
           Bad{R"({"resample": 9})", kInvalid,
               "p.json:1: resample: expected an integer >= 0 and <= 5, found "
               "9"},
           Bad{R"({"image_std": [1, 0, 1]})", kInvalid,
               "p.json:1: image_std[1]: expected a number > 0, found 0"},
           Bad{"[]", kInvalid, "p.json:1: expected an object, found a list"},
       }) {
    auto config = ParseProcessorConfig(bad.json, "p.json");
    EXPECT_EQ(config.status().code(), bad.code);
    EXPECT_EQ(config.status().message(), bad.message);
  }
}

}  // namespace
}  // namespace mpsd::image
