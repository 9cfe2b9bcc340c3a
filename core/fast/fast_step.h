// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_FAST_FAST_STEP_H_
#define MPSD_CORE_FAST_FAST_STEP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/fast/attention_block.h"
#include "core/fast/linear_group.h"
#include "core/fast/lora_pack.h"
#include "core/fast/mlp_block.h"
#include "core/fast/options.h"
#include "core/model/decoder.h"
#include "core/model/head_loss.h"

namespace mpsd::fast {

// The gradients of a decoder whose weights are frozen by its LoRA adapters,
// forward and backward written out over saved activations: no autograd graph,
// no weight gradients, nothing kept but what the backward reads. Equal to
// autograd over the same model up to rounding (with bf16, adapters multiply in
// bf16 here and in fp32 there).
//
//   step.Begin();  for each micro-batch: step.Add(…);  step.End();
//
// What depends on the rows' shape alone (rotations, masks) is kept from
// micro-batch to micro-batch and from step to step: of the latest shape, and of
// others while that is kKeptBytes at most.
class FastStep {
 public:
  // FailedPrecondition with the reason where it does not cover what is
  // trained: weights of the model itself. spec::ChooseGradients knows before.
  // `decoder`, with its adapters hung, must outlive it.
  static absl::StatusOr<std::unique_ptr<FastStep>> Create(
      const model::Decoder& decoder, const std::vector<at::Tensor>& trained,
      const Options& options);

  static constexpr int64_t kKeptBytes = int64_t{64} << 20;

  // What a backward computes again, from the next Add on; at first the
  // options'.
  void set_recompute(spec::Recompute recompute) { recompute_ = recompute; }
  // Called within Add each time that some layers' work has been encoded, so
  // that the device begins with it (MPS executes what was committed); null:
  // nobody.
  void set_commit(std::function<void()> commit) { commit_ = std::move(commit); }

  // Takes the parameters' values as they are now.
  void Begin();
  // Adds `scale` times the gradient of the summed loss; returns that sum, an
  // fp32 scalar on the device.
  at::Tensor Add(const model::DecoderInputs& inputs,
                 const model::LabelSelection& labels, double scale);
  // Writes the gradients into the parameters' .grad.
  void End();

  // The attention kernels that ran so far.
  const model::AttentionRan& attention() const { return attention_; }

 private:
  struct Layer {
    AttentionBlock attention;
    MlpBlock mlp;
    int64_t window;
    bool adapted() const { return attention.adapted() || mlp.adapted(); }
  };
  // What one layer keeps between forward and backward.
  struct Tape {
    at::Tensor x, h;  // its input; after attention
    AttentionBlockTape attention;
    MlpTape mlp;
  };
  // What the layers of one micro-batch share.
  struct Context {
    RopeTable rope;
    // Where tokens lie position by position: the place of each of the inputs'.
    at::Tensor places;
    std::map<int64_t, AttentionPlan> plans;  // by window
    int64_t bytes() const;
  };
  struct KeptContext {
    int64_t rows, length;
    bool draws;
    std::shared_ptr<const Context> context;
  };

  FastStep(const model::Decoder& decoder, const Options& options);
  std::shared_ptr<const Context> ContextOf(const model::DecoderInputs& inputs);
  Context MakeContext(const model::DecoderInputs& inputs);
  void NoteKernels(const Context& context);
  at::Tensor Forward(const Layer& layer, const at::Tensor& x,
                     const Context& context, Tape& tape) const;
  at::Tensor Backward(const Layer& layer, const at::Tensor& dy,
                      const Context& context, Tape& tape, bool wants_dx) const;
  // With this many layers below what is done forward, or left back.
  void Commit(size_t layers) const;
  // The gradient of the last layer's output.
  at::Tensor Head(const at::Tensor& y, const model::LabelSelection& labels,
                  double scale, const Context& context, at::Tensor& sum);

  const model::Decoder& decoder_;
  const Options options_;
  const HeadShape shape_;
  LoraPack pack_;
  LinearGroup head_;
  std::vector<std::unique_ptr<Layer>> layers_;
  at::Tensor logits_;   // the head's buffer
  size_t lowest_ = 0;   // the lowest layer with an adapter
  bool begun_ = false;  // from Begin to End
  spec::Recompute recompute_;
  std::function<void()> commit_;
  BandMasks bands_;
  std::list<KeptContext> contexts_;  // the latest first
  model::AttentionRan attention_;
};

}  // namespace mpsd::fast

#endif  // MPSD_CORE_FAST_FAST_STEP_H_
