// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/host_kernels.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

#include <functional>
#include <map>
#include <string>

namespace mpsd::ops {
namespace {

using torch::jit::Stack;
using Arguments = c10::ArrayRef<c10::IValue>;
using Function = std::function<Stack(Arguments)>;

at::Tensor Rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// linear_backward(input, grad_output, weight, output_mask), as
// aten/src/ATen/native/mps/operations/Linear.mm has it.
Stack LinearBackward(Arguments a) {
  const at::Tensor input = a[0].toTensor(), weight = a[2].toTensor();
  const at::Tensor grad = a[1].toTensor();
  const auto mask = a[3].toBoolList();
  at::Tensor by_input, by_weight, by_bias;
  if (mask.get(0)) by_input = at::matmul(grad, weight);
  if (mask.get(1)) by_weight = at::mm(Rows(grad).t(), Rows(input));
  if (mask.get(2)) by_bias = Rows(grad).sum(0);
  return {by_input, by_weight, by_bias};
}

// _softmax_backward_data(grad_output, output, dim, input_dtype): a product, its
// sum, a difference and a product, each rounded to the arguments' dtype, as
// aten/src/ATen/native/mps/operations/SoftMax.mm has it. In fp32 the CPU's own
// kernel differs by rounding alone.
Stack SoftmaxBackward(Arguments a) {
  const at::Tensor grad = a[0].toTensor(), output = a[1].toTensor();
  if (grad.scalar_type() == at::kFloat) {
    return {at::_softmax_backward_data(grad, output, a[2].toInt(),
                                       a[3].toScalarType())};
  }
  const at::Tensor sum =
      at::mul(grad, output).sum({a[2].toInt()}, /*keepdim=*/true);
  return {at::sub(grad, sum).mul_(output)};
}

const std::map<std::string, Function>& OnlyOnMps() {
  static const auto* table = new std::map<std::string, Function>{
      {"aten::linear_backward", LinearBackward},
      {"aten::_softmax_backward_data", SoftmaxBackward},
  };
  return *table;
}

at::Tensor Like(const c10::IValue& x) { return at::empty_like(x.toTensor()); }

Stack NormBackward(Arguments a) {
  const auto mask = a[7].toBoolList();
  const auto given = [&](size_t i, size_t argument) {
    return mask.get(i) ? Like(a[argument]) : at::Tensor();
  };
  return {given(0, 1), given(1, 5), given(2, 6)};
}

Stack IndexSelect(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[a[1].toInt()] = a[2].toTensor().numel();
  return {at::empty(sizes, x.options())};
}

Stack Dropout(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  return {at::empty_like(x), at::empty_like(x, at::kBool)};
}

Stack EmbeddingBackward(Arguments a) {
  const at::Tensor grad = a[0].toTensor();
  return {at::empty({a[2].toInt(), grad.size(-1)}, grad.options())};
}

Stack Where(Arguments a) {
  const auto tensors = at::broadcast_tensors(
      {a[0].toTensor(), a[1].toTensor(), a[2].toTensor()});
  return {at::empty(tensors[1].sizes(), tensors[1].options())};
}

// logical_or(x, y, out), which torch calls for the plain form too.
Stack LogicalOut(Arguments a) {
  const at::Tensor out = a[2].toTensor();
  out.resize_(at::infer_size(a[0].toTensor().sizes(), a[1].toTensor().sizes()));
  return {out};
}

// Of the CPU's kernels, for runs that count their bytes.
Stack FlashAttention(Arguments a) {
  const at::Tensor q = a[0].toTensor();
  return {at::empty_like(q), at::empty({q.size(0), q.size(1), q.size(2)},
                                       q.options().dtype(at::kFloat))};
}

Stack FlashAttentionBackward(Arguments a) {
  return {Like(a[1]), Like(a[2]), Like(a[3])};
}

Stack InnerProduct(Arguments a) {
  const at::Tensor x = a[0].toTensor();
  return {at::empty({x.size(0), a[1].toTensor().size(0)}, x.options())};
}

const std::map<std::string, Function>& Shapes() {
  static const auto* table = new std::map<std::string, Function>{
      {"aten::_local_scalar_dense",
       [](Arguments) -> Stack { return {c10::Scalar(0)}; }},
      {"aten::index_select", IndexSelect},
      {"aten::native_dropout", Dropout},
      {"aten::native_dropout_backward",
       [](Arguments a) -> Stack { return {Like(a[0])}; }},
      {"aten::native_layer_norm_backward", NormBackward},
      {"aten::embedding_dense_backward", EmbeddingBackward},
      {"aten::where", Where},
      {"aten::logical_or", LogicalOut},
      {"aten::logical_and", LogicalOut},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", FlashAttention},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       FlashAttentionBackward},
      {"mkldnn::_linear_pointwise", InnerProduct},
      {"aten::roll", [](Arguments a) -> Stack { return {Like(a[0])}; }},
  };
  return *table;
}

// Whether every result is an argument that is written to.
bool WritesOnly(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (!result.alias_info() || !result.alias_info()->isWrite()) return false;
  }
  return true;
}

bool Run(const std::map<std::string, Function>& table, const std::string& name,
         size_t count, Stack& stack) {
  const auto it = table.find(name);
  if (it == table.end()) return false;
  Stack results = it->second(torch::jit::last(stack, count));
  torch::jit::drop(stack, count);
  stack.insert(stack.end(), results.begin(), results.end());
  return true;
}

}  // namespace

void RunOnHost(const c10::OperatorHandle& op, bool meta, Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  const size_t count = schema.arguments().size();
  if (Run(OnlyOnMps(), name, count, stack)) return;
  if (meta && Run(Shapes(), name, count, stack)) return;
  // In place: shapes stay. Results of out variants may be resized.
  const bool in_place = name.back() == '_' && WritesOnly(schema);
  if (meta && in_place) {
    Stack results;
    if (!schema.returns().empty()) {
      results.push_back(torch::jit::peek(stack, 0, count));
    }
    torch::jit::drop(stack, count);
    stack.insert(stack.end(), results.begin(), results.end());
    return;
  }
  op.callBoxed(&stack);
}

}  // namespace mpsd::ops
