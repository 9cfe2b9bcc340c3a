// SPDX-License-Identifier: Apache-2.0
#include "core/model/network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/base/check.h"
#include "core/base/work_count.h"
#include "core/model/recompute.h"
#include "core/device/block_mark.h"

namespace mpsd::model {

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
