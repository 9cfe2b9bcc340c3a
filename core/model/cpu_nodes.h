// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_CPU_NODES_H_
#define MPSD_CORE_MODEL_CPU_NODES_H_

#include <ATen/core/Tensor.h>

#include "core/model/layers.h"

// Layers as single nodes of autograd, for training in fp32 on the CPU, where a
// pass over memory costs as much as arithmetic. Values equal those of Forward
// up to rounding; random numbers are the same.
//
// A node itself adds the gradient of a leaf parameter to its .grad, if that
// exists (optim::ParameterSet gives one to all), without autograd's
// accumulating node. Autograd gets the gradient of any other parameter.
namespace mpsd::model {

// Whether CpuLinear supports this layer: fp32 on the CPU, a dense weight, and
// either no adapter or a low-rank one.
bool CpuLinearTakes(const Linear& linear, const at::Tensor& x);

// linear.Forward(x), including the adapter's term. oneDNN multiplies by the
// weight if torch was built with it.
at::Tensor CpuLinear(const Linear& linear, const at::Tensor& x);

// embedding.Forward(ids) of an fp32 table on the CPU. The backward touches only
// the rows that were looked up.
at::Tensor CpuEmbedding(const Embedding& embedding, const at::Tensor& ids);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_CPU_NODES_H_
