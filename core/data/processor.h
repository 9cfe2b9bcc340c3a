// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/image.h"
#include "core/spec/model_config.h"

namespace mpsd::image {

// preprocessor_config.json with the defaults of Transformers' ViTImageProcessor
// (5.23, models/vit/image_processing_pil_vit.py). do_convert_rgb has no field,
// because decoded images are always RGB.
struct ProcessorConfig {
  bool do_resize = true;
  int64_t height = 224, width = 224;     // from "size"
  std::optional<int64_t> shortest_edge;  // replaces size; keeps the ratio
  Filter resample = Filter::kBilinear;
  bool do_center_crop = false;
  int64_t crop_height = 224, crop_width = 224;
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255;
  bool do_normalize = true;
  // A number per channel, or one for all; empty: 0.5.
  std::vector<double> image_mean;
  std::vector<double> image_std;
  bool operator==(const ProcessorConfig&) const = default;
};

// Parses preprocessor_config.json. Unknown names are ignored, as in
// Transformers. Unimplemented for another type of processor, naming it, and for
// padding; InvalidArgument "<origin>:<line>: <field>: …".
absl::StatusOr<ProcessorConfig> ParseProcessorConfig(std::string_view json,
                                                     std::string_view origin);

// The text of a preprocessor_config.json that Transformers reads as the same
// config.
std::string ToJson(const ProcessorConfig& config);

// Converts an image to a vision transformer's input as ViTImageProcessor does:
// resized and cropped with eight bits per channel, then rescaled and normalised
// in fp32. The result equals Transformers' with Pillow to the last bit of fp32.
class Processor {
 public:
  // Reads the config of the model's folder. Without a preprocessor_config.json
  // the processor resizes to the model's image_size. InvalidArgument if the
  // config's image size, or its number of means, differs from the model's.
  static absl::StatusOr<Processor> Read(const std::string& model_dir,
                                        const spec::VisionConfig& model);
  // `origin` names the config in errors.
  static absl::StatusOr<Processor> Make(ProcessorConfig config,
                                        const spec::VisionConfig& model,
                                        std::string_view origin);

  int64_t channels() const { return channels_; }
  int64_t image_size() const { return image_size_; }  // height and width
  // The config, expanded to a mean and a deviation per channel.
  const ProcessorConfig& config() const { return config_; }

  // The image with channels() channels, resized and cropped to image_size().
  // InvalidArgument "<name>: …" if the config gives this image another size.
  absl::StatusOr<Image> Fit(const Image& image, const std::string& name) const;

  // The floats of an image with channels() channels, [channels, height, width].
  void Normalize(const Image& image, float* out) const;

 private:
  Processor(const ProcessorConfig& config, const spec::VisionConfig& model);

  ProcessorConfig config_;
  int64_t channels_;
  int64_t image_size_;
  std::vector<std::array<float, 256>> values_;  // by channel and byte
};

}  // namespace mpsd::image
