// SPDX-License-Identifier: Apache-2.0
#include "core/model/network.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <mutex>
#include <optional>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/device/block_mark.h"
#include "core/device/device.h"

namespace mpsd::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor StateOf(at::Generator generator) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetState(at::Generator generator, const at::Tensor& state) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The states of the generators that work on `device` may use.
struct RandomState {
  static RandomState Of(at::Device device) {
    RandomState s{.device = device,
                  .cpu = StateOf(at::detail::getDefaultCPUGenerator()),
                  .on_device = {}};
    if (device::TraitsOf(device).own_generator) {
      s.on_device = StateOf(at::globalContext().defaultGenerator(device));
    }
    return s;
  }
  void Restore() const {
    SetState(at::detail::getDefaultCPUGenerator(), cpu);
    if (on_device.defined()) {
      SetState(at::globalContext().defaultGenerator(device), on_device);
    }
  }
  at::Device device;
  at::Tensor cpu, on_device;
};

struct Frame : torch::CustomClassHolder {
  std::function<at::Tensor(const at::Tensor&)> run;
  std::optional<RandomState> random;  // absent: `run` draws nothing
};

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  // `anchor` requires a gradient, so that autograd makes the node even if x
  // needs none (in the first block above frozen embeddings).
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const at::Tensor& /*anchor*/,
                            const c10::intrusive_ptr<Frame>& frame) {
    ctx->save_for_backward({x});
    ctx->saved_data["frame"] = c10::IValue::make_capsule(frame);
    return frame->run(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor saved = ctx->get_saved_variables()[0];
    const auto capsule = ctx->saved_data["frame"].toCapsule();
    const Frame& frame = static_cast<const Frame&>(*capsule);
    // A new leaf, so that the second backward ends at x.
    const at::Tensor x = saved.detach().requires_grad_(saved.requires_grad());
    std::optional<RandomState> after;
    if (frame.random) {
      after = RandomState::Of(saved.device());
      frame.random->Restore();
    }
    at::Tensor y;
    {
      at::AutoGradMode grad_on(true);
      y = frame.run(x);
    }
    // Later draws must not repeat the block's numbers.
    if (after) after->Restore();
    if (y.requires_grad()) torch::autograd::backward({y}, {grads[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor Recompute(std::function<at::Tensor(const at::Tensor&)> run,
                     const at::Tensor& x, bool draws) {
  base::Check(run != nullptr, "there is a block to run again");
  const at::Tensor anchor =
      at::empty({0}, x.options().dtype(at::kFloat)).requires_grad_(true);
  auto frame = c10::make_intrusive<Frame>();
  frame->run = std::move(run);
  if (draws) frame->random = RandomState::Of(x.device());
  return RecomputeFunction::apply(x, anchor, frame);
}

at::Tensor Network::RunBlock(
    size_t index, const std::function<at::Tensor(const at::Tensor&)>& run,
    const at::Tensor& x, bool draws) const {
  base::Check(x.defined(), "a block has an input");
  const auto counted = [run, index](const at::Tensor& in) {
    const profile::BlockMark mark(static_cast<int64_t>(index), "");
    base::CountWork();
    return run(in);
  };
  const at::Tensor y =
      options_.recompute != spec::Recompute::kNone && at::GradMode::is_enabled()
          ? Recompute(counted, x, draws)
          : counted(x);
  const std::function<void()> commit =
      (index + 1) % kLayersPerCommit == 0 ? commit_ : nullptr;
  if (commit) commit();
  if (y.requires_grad()) {
    // The hook runs when the backward of the blocks above is encoded.
    y.register_hook([commit](const at::Tensor&) {
      base::CountWork();
      if (commit) commit();
    });
  }
  return y;
}

}  // namespace mpsd::model
