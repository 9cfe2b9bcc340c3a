// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_CPU_NODES_H_
#define MPSD_CORE_MODEL_CPU_NODES_H_

#include <ATen/core/Tensor.h>

#include "core/model/layers.h"

// Layers as single nodes of autograd, for training in fp32 on the CPU, where a
// pass over memory costs as much as arithmetic. The values are those of
// Forward up to rounding, the random numbers the same ones.
//
// A parameter that is a leaf and has a .grad (optim::ParameterSet's all do)
// gets its gradient added there by the node itself; no accumulating node sees
// it. Any other gets it from autograd.
namespace mpsd::model {

// Whether CpuLinear computes this: fp32 on the CPU, a dense weight, and no
// adapter but a low-rank one.
bool CpuLinearTakes(const Linear& linear, const at::Tensor& x);

// linear.Forward(x), the adapter's term included. The products with the weight
// are oneDNN's where torch was built with it.
at::Tensor CpuLinear(const Linear& linear, const at::Tensor& x);

// embedding.Forward(ids) of an fp32 table on the CPU. Its backward touches the
// rows that were looked up, no others.
at::Tensor CpuEmbedding(const Embedding& embedding, const at::Tensor& ids);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_CPU_NODES_H_
