// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/explicit_step/linear_group.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"
#include "core/model/quant.h"
#include "core/optim/parameters.h"
#include "core/selftest/checks.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

// Networks of two layers whose numbers depend only on their configuration, so
// that every device gets the same. All numbers are exact in bf16, so that both
// dtypes have the same too.
namespace mpsd::selftest {

// The device on which a network is trained, and the dtype.
struct Place {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  device::Traits traits = {};

  static Place On(const device::Device& device, at::ScalarType dtype);
};

// A dropout that drops nothing: its kernels run, and the results equal those
// without dropout, except for one number in 2^25: CUDA drops a draw so close to
// 1 that a float rounds it up. Networks with this dropout therefore have
// FewTokens and several attempts.
inline constexpr double kDropsNothing = 1e-9;
inline constexpr int kDropoutAttempts = 3;

// The features in which decoders differ.
struct DecoderParts {
  bool window = false;      // of a third of the tokens, in the first layer
  bool head_norms = false;  // norms of q and k
  bool biases = false;
  bool tied = false;
  // Gemma's: norms of outputs, norms that multiply by 1 + w, GeGLU, soft caps,
  // scaled embeddings, another rope in the first layer.
  bool capped = false;
  // Phi-3's: fused linears, half of each head rotated.
  bool fused = false;
  int64_t class_labels = 0;  // their number, for a classifier
};

// Vocabularies are cut to 4096 tokens; LossChecks covers wide ones.
spec::ModelConfig DecoderConfig(const Sizes& sizes, const DecoderParts& parts);
// For model_type "bert", "roberta" or "distilbert", with three classes.
spec::ModelConfig EncoderConfig(const Sizes& sizes, const std::string& type,
                                double dropout);
spec::ModelConfig VisionConfig(const Sizes& sizes, double dropout);

std::unique_ptr<model::Decoder> DrawDecoder(const spec::ModelConfig& config,
                                            const Place& place);
std::unique_ptr<model::Classifier> DrawClassifier(
    const spec::ModelConfig& config, const Place& place);

// Quantises the linears of the decoder's blocks.
void Quantize(model::Decoder& decoder, const quant::Options& options,
              at::Device device);

// Attaches adapters whose B is not zero to all linears or the named ones, and
// also trains `modules_to_save`. The network must outlive the result.
std::unique_ptr<optim::Trainable> HangAdapters(
    model::Network& network, const std::vector<std::string>& targets,
    const std::vector<std::string>& modules_to_save, double dropout,
    at::Device device);
// Trains all weights of the network, as fp32 masters.
std::unique_ptr<optim::Trainable> TrainAllWeights(model::Network& network,
                                                  at::Device device);

// A micro-batch of `rows` texts with labels; some tokens have no label.
struct TextBatch {
  model::DecoderInputs inputs;
  model::LabelSelection labels;
};
TextBatch MakeTexts(const Sizes& sizes, int64_t rows, int64_t vocabulary,
                    bool packed, at::Device device);

// Micro-batches for the classifier of a config, with classes.
struct ClassBatch {
  model::ClassifierInputs inputs;
  at::Tensor classes;
};
ClassBatch MakeClassBatch(const Sizes& sizes, const spec::ModelConfig& config,
                          bool padded, at::Device device);

// Rows of a micro-batch at `sizes`, and tokens of a row: few enough for the CPU
// to compute the same in seconds.
int64_t NetworkRows(const Sizes& sizes);
int64_t NetworkLength(const Sizes& sizes);
// Sizes at which a network draws so few numbers that none is likely to be 1.
Sizes FewTokens(const Sizes& sizes);

// The gradients of all parameters, copied to the CPU.
Tensors GradientsOf(optim::Trainable& trainable);

// The tolerated error of the gradients and losses of two layers, relative to
// the largest number of each tensor. In bf16 all activations and all weight
// gradients are rounded.
inline constexpr double kNetworkFloatTolerance = 2e-4;
inline constexpr double kNetworkBfloat16Tolerance = 0.15;
// The bf16 tolerance is multiplied by this for gradients that are sums over all
// tokens (of biases and norms): devices may add them up in bf16.
inline constexpr double kSumsInBfloat16 = 2;
// A gradient below this share of the largest gradient of its rank is zero up to
// rounding, as that of a key's bias is: its error is relative to the largest.
inline constexpr double kNothing = 1e-3;

// A network and a single training step of it.
struct NetworkTrial {
  std::string kernel, shape;
  // Trains; returns losses and gradients on the CPU. `reference`: by autograd,
  // as exactly as possible.
  std::function<Tensors(const Place&, bool reference)> train;
  // Number of attempts, each with other random numbers; the best counts.
  int attempts = 1;
  // False for a network whose gradients jump, as a relu's do if rounding flips
  // a sign: a comparison in bf16 would be meaningless.
  bool in_bf16 = true;
};

// Adds the trial in fp32 and in bf16, compared with the reference on the CPU in
// fp32, which both share.
void AddNetwork(const NetworkTrial& trial, std::vector<Check>& checks);

// A network whose weights are trained in fp32 takes sixteen bytes per weight,
// on the device and again on the CPU. Models above this width are represented
// by the default sizes.
inline constexpr int64_t kMaxFullWidth = 1024;
Sizes WithinWidth(const Sizes& sizes, int64_t width);

}  // namespace mpsd::selftest
