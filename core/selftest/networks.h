// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_NETWORKS_H_
#define MPSD_CORE_SELFTEST_NETWORKS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/explicit_step/options.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/head_loss.h"
#include "core/optim/trainable.h"
#include "core/model/quantize.h"
#include "core/selftest/checks.h"
#include "core/selftest/compare.h"
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

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_NETWORKS_H_
