// SPDX-License-Identifier: Apache-2.0
// image_probe: files as mpsd decodes them and makes pixels of them, for
// compare_images.py to hold against PIL and Transformers.
#include <ATen/ATen.h>

#include <fstream>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/data/decode.h"
#include "core/data/processor.h"
#include "core/spec/model_config.h"

namespace mpsd::image {
namespace {

struct Options {
  std::string model, files, output;
};

absl::Status Add(const std::string& file, int64_t number,
                 const Processor& processor,
                 tensorfile::NamedTensors& tensors) {
  ASSIGN_OR_RETURN(auto bytes, base::ReadFile(file));
  ASSIGN_OR_RETURN(auto image, DecodeImage(bytes, file));
  ASSIGN_OR_RETURN(auto fitted, processor.Fit(image, file));
  at::Tensor pixels = at::empty(
      {processor.channels(), processor.image_size(), processor.image_size()});
  processor.Normalize(fitted, pixels.mutable_data_ptr<float>());
  const at::Tensor rgb =
      at::from_blob(image.pixels.data(), {image.height, image.width, 3},
                    at::kByte)
          .clone();
  tensors.emplace_back("rgb." + std::to_string(number), rgb);
  tensors.emplace_back("pixels." + std::to_string(number), pixels);
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(auto config, spec::ReadModelConfig(options.model));
  ASSIGN_OR_RETURN(auto processor,
                   Processor::Read(options.model, config.vision));
  tensorfile::NamedTensors tensors;
  std::ifstream files(options.files);
  int64_t number = 0;
  for (std::string file; std::getline(files, file); ++number) {
    RETURN_IF_ERROR(Add(file, number, processor, tensors));
  }
  return tensorfile::WriteSafetensors(options.output, tensors);
}

}  // namespace
}  // namespace mpsd::image

int main(int argc, char** argv) {
  CLI::App app("Images as mpsd sees them.", "image_probe");
  mpsd::image::Options options;
  app.add_option("--model", options.model, "Hugging Face folder")->required();
  app.add_option("--files", options.files, "a file with a path a line")
      ->required();
  app.add_option("--output", options.output, "safetensors to write")
      ->required();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = mpsd::image::Run(options);
  if (status.ok()) return 0;
  std::cerr << "image_probe: " << status << "\n";
  return 1;
}
