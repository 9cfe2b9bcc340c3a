// SPDX-License-Identifier: Apache-2.0
#include "core/data/processor.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"

namespace mpsd::image {
namespace {

using base::Cat;

// IMAGENET_STANDARD_MEAN and _STD of transformers, image_utils.py.
constexpr double kMean = 0.5, kDeviation = 0.5;

// The size of every result; nullopt if it depends on the image's own size.
std::optional<std::pair<int64_t, int64_t>> FixedSize(const ProcessorConfig& c) {
  if (c.do_center_crop) return std::pair(c.crop_height, c.crop_width);
  if (c.do_resize && !c.shortest_edge) return std::pair(c.height, c.width);
  return std::nullopt;
}

// Expands `values` to one per channel.
absl::Status Spread(std::string_view field, double otherwise, int64_t channels,
                    std::string_view origin, std::vector<double>& values) {
  if (values.empty()) values = {otherwise};
  if (values.size() == 1) values.resize(channels, values[0]);
  if (std::ssize(values) == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(origin, ": ", field, ": ", values.size(),
          " numbers, expected one for each of the model's ", channels,
          " channels"));
}

// transformers, image_transforms.py, get_resize_output_image_size.
Image ResizeShortestEdge(const Image& image, int64_t edge, Filter filter) {
  const int64_t h = image.height, w = image.width;
  const auto longer = [&](int64_t longest, int64_t shortest) {
    return static_cast<int64_t>(static_cast<double>(edge * longest) / shortest);
  };
  return w <= h ? Resize(image, longer(h, w), edge, filter)
                : Resize(image, edge, longer(w, h), filter);
}

}  // namespace

Processor::Processor(const ProcessorConfig& config,
                     const spec::VisionConfig& model)
    : config_(config),
      channels_(model.num_channels),
      image_size_(model.image_size),
      values_(model.num_channels) {
  for (int64_t c = 0; c < channels_; ++c) {
    const float mean = config.image_mean[c];
    const float deviation = config.image_std[c];
    for (int byte = 0; byte < 256; ++byte) {
      // Rescaled in fp64, rounded to fp32, then normalised in fp32: NumPy's
      // order of roundings.
      float value = config.do_rescale ? byte * config.rescale_factor : byte;
      if (config.do_normalize) value = (value - mean) / deviation;
      values_[c][byte] = value;
    }
  }
}

absl::StatusOr<Processor> Processor::Make(ProcessorConfig config,
                                          const spec::VisionConfig& model,
                                          std::string_view origin) {
  if (model.num_channels != 1 && model.num_channels != 3) {
    return absl::UnimplementedError(
        Cat("num_channels: the model takes images of ", model.num_channels,
            " channels; images are decoded to 3 (RGB) or 1 (grey)"));
  }
  for (const absl::Status& status :
       {Spread("image_mean", kMean, model.num_channels, origin,
               config.image_mean),
        Spread("image_std", kDeviation, model.num_channels, origin,
               config.image_std)}) {
    if (!status.ok()) return status;
  }
  const auto size = FixedSize(config);
  if (size && *size != std::pair(model.image_size, model.image_size)) {
    return absl::InvalidArgumentError(Cat(
        origin, ": makes images of ", size->first, "x", size->second,
        " (height by width), the model's image_size is ", model.image_size));
  }
  return Processor(config, model);
}

absl::StatusOr<Processor> Processor::Read(const std::string& model_dir,
                                          const spec::VisionConfig& model) {
  const auto path =
      std::filesystem::path(model_dir) / "preprocessor_config.json";
  auto text = base::ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    ProcessorConfig config;
    config.height = config.width = model.image_size;
    return Make(config, model, path.string());
  }
  if (!text.ok()) return text.status();
  ASSIGN_OR_RETURN(auto config, ParseProcessorConfig(*text, path.string()));
  return Make(config, model, path.string());
}

absl::StatusOr<Image> Processor::Fit(const Image& image,
                                     const std::string& name) const {
  Image out = ToChannels(image, channels_);
  if (config_.do_resize) {
    out =
        config_.shortest_edge
            ? ResizeShortestEdge(out, *config_.shortest_edge, config_.resample)
            : Resize(out, config_.height, config_.width, config_.resample);
  }
  if (config_.do_center_crop) {
    out = CenterCrop(out, config_.crop_height, config_.crop_width);
  }
  if (out.height == image_size_ && out.width == image_size_) return out;
  return absl::InvalidArgumentError(
      Cat(name, ": is ", out.height, "x", out.width,
          " (height by width) after the preprocessor, the model takes ",
          image_size_, "x", image_size_,
          "; give preprocessor_config.json a size with height and width, or "
          "do_center_crop"));
}

void Processor::Normalize(const Image& image, float* out) const {
  const int64_t area = image.height * image.width;
  for (int64_t c = 0; c < channels_; ++c) {
    const uint8_t* from = image.pixels.data() + c;
    for (int64_t i = 0; i < area; ++i, from += channels_) {
      *out++ = values_[c][*from];
    }
  }
}

}  // namespace mpsd::image
