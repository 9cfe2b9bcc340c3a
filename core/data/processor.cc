// SPDX-License-Identifier: Apache-2.0
#include "core/data/processor.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/fields.h"
#include "core/spec/json_node.h"

namespace mpsd::image {
namespace {

using base::Cat;
using spec::JsonNode;
using spec::Range;
using Kind = JsonNode::Kind;

// One processor under the names that releases of Transformers gave it.
constexpr std::array<std::string_view, 4> kTypes = {
    "ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil",
    "ViTFeatureExtractor"};

class ConfigReader {
 public:
  ConfigReader(const JsonNode& root, std::string_view origin)
      : root_(root), origin_(origin), fields_(&root, "", findings_) {}

  absl::StatusOr<ProcessorConfig> Read() {
    if (root_.kind != Kind::kObject) return findings_.ToStatus(origin_);
    if (auto status = CheckKind(); !status.ok()) return status;
    ReadSwitch("do_resize", config_.do_resize);
    ReadSwitch("do_center_crop", config_.do_center_crop);
    ReadSwitch("do_rescale", config_.do_rescale);
    ReadSwitch("do_normalize", config_.do_normalize);
    if (auto status = ReadSizes(); !status.ok()) return status;
    ReadNumbers();
    if (!findings_.empty()) return findings_.ToStatus(origin_);
    return config_;
  }

 private:
  // Null if the field is absent or null.
  const JsonNode* Find(std::string_view name) const {
    const JsonNode* node = root_.Find(name);
    return node == nullptr || node->kind == Kind::kNull ? nullptr : node;
  }

  absl::Status Unimplemented(const JsonNode& node, std::string_view message) {
    return absl::UnimplementedError(
        Cat(origin_, ":", node.line, ": ", node.name, ": ", message));
  }

  absl::Status CheckKind() {
    for (const char* field :
         {"image_processor_type", "feature_extractor_type"}) {
      const JsonNode* node = Find(field);
      if (node == nullptr) continue;
      for (const std::string_view type : kTypes) {
        if (node->text == type) return absl::OkStatus();
      }
      return Unimplemented(
          *node, Cat(Describe(*node),
                     " is not supported; supported is ViTImageProcessor"));
    }
    const JsonNode* pad = Find("do_pad");
    if (pad != nullptr && pad->boolean) {
      return Unimplemented(*pad, "padding is not supported");
    }
    return absl::OkStatus();
  }

  void ReadSwitch(std::string_view name, bool& value) {
    std::optional<bool> read;
    fields_.Bool(name, read);
    value = read.value_or(value);
  }

  absl::Status ReadSizes() {
    if (const JsonNode* node = Find("size")) {
      for (const char* other : {"longest_edge", "max_height", "max_width"}) {
        const JsonNode* found = node->Find(other);
        if (found != nullptr && found->kind != Kind::kNull) {
          return Unimplemented(*node,
                               Cat(other,
                                   " is not supported; supported are height "
                                   "and width, and shortest_edge"));
        }
      }
      ReadSize(*node, config_.height, config_.width, &config_.shortest_edge);
    }
    if (const JsonNode* node = Find("crop_size")) {
      ReadSize(*node, config_.crop_height, config_.crop_width, nullptr);
    }
    return absl::OkStatus();
  }

  // A number, or an object with height and width, or with shortest_edge.
  void ReadSize(const JsonNode& node, int64_t& height, int64_t& width,
                std::optional<int64_t>* shortest_edge) {
    const Range range = Range::Between(1, 16384);
    if (node.kind != Kind::kObject) {
      fields_.Integer(node.name, height, range);
      width = height;
      return;
    }
    spec::FieldReader size = fields_.Section(node.name);
    if (shortest_edge != nullptr) {
      size.Integer("shortest_edge", *shortest_edge, range);
      if (*shortest_edge) return;
    }
    std::optional<int64_t> h, w;
    size.Integer("height", h, range);
    size.Integer("width", w, range);
    if (!h || !w) {
      findings_.Add(node.line, node.name,
                    Cat("expected an integer, or height and width",
                        shortest_edge ? ", or shortest_edge" : ""));
    }
    height = h.value_or(height);
    width = w.value_or(width);
  }

  void ReadNumbers() {
    std::optional<int64_t> resample;
    fields_.Integer("resample", resample, Range::Between(0, 5));
    if (resample) config_.resample = static_cast<Filter>(*resample);
    std::optional<double> factor;
    fields_.Number("rescale_factor", factor, Range::Above(0));
    config_.rescale_factor = factor.value_or(config_.rescale_factor);
    ReadChannels("image_mean", config_.image_mean, {});
    ReadChannels("image_std", config_.image_std, Range::Above(0));
  }

  void ReadChannels(std::string_view name, std::vector<double>& values,
                    Range range) {
    const JsonNode* node = Find(name);
    if (node == nullptr) return;
    if (node->kind == Kind::kArray) {
      fields_.Numbers(name, values, range);
    } else {
      double all = 0;  // a single number is for every channel
      fields_.Number(name, all, range);
      values = {all};
    }
  }

  const JsonNode& root_;
  const std::string_view origin_;
  spec::Findings findings_;
  spec::FieldReader fields_;
  ProcessorConfig config_;
};

nlohmann::ordered_json SizeJson(int64_t height, int64_t width) {
  return {{"height", height}, {"width", width}};
}

}  // namespace

absl::StatusOr<ProcessorConfig> ParseProcessorConfig(std::string_view json,
                                                     std::string_view origin) {
  ASSIGN_OR_RETURN(auto root, spec::ParseJson(json, origin));
  return ConfigReader(root, origin).Read();
}

std::string ToJson(const ProcessorConfig& c) {
  nlohmann::ordered_json json = {{"image_processor_type", "ViTImageProcessor"},
                                 {"do_resize", c.do_resize},
                                 {"size", SizeJson(c.height, c.width)},
                                 {"resample", static_cast<int>(c.resample)},
                                 {"do_rescale", c.do_rescale},
                                 {"rescale_factor", c.rescale_factor},
                                 {"do_normalize", c.do_normalize}};
  if (c.shortest_edge) json["size"] = {{"shortest_edge", *c.shortest_edge}};
  if (c.do_center_crop) {
    json["do_center_crop"] = true;
    json["crop_size"] = SizeJson(c.crop_height, c.crop_width);
  }
  if (!c.image_mean.empty()) json["image_mean"] = c.image_mean;
  if (!c.image_std.empty()) json["image_std"] = c.image_std;
  return json.dump(2) + "\n";
}

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
