// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Version.h>

#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/text.h"
#include "core/device/backends.h"
#include "core/device/device.h"
#include "core/host/environment.h"
#include "core/wire/messages.h"
#include "core/worker/run_job.h"
#include "core/worker/verbs.h"

namespace mpsd::worker {
namespace {

using nlohmann::json;

constexpr int64_t kRows = 33, kSums = 65, kColumns = 17;

// Integers of both signs, without a pattern that a wrong stride would keep.
int64_t Left(int64_t i, int64_t k) { return (7 * i + 3 * k + i * k) % 23 - 11; }
int64_t Right(int64_t k, int64_t j) {
  return (5 * k + 11 * j + k * j) % 19 - 9;
}

at::Tensor Matrix(int64_t rows, int64_t columns,
                  int64_t (*value)(int64_t, int64_t)) {
  at::Tensor matrix = at::empty({rows, columns}, at::kFloat);
  float* numbers = matrix.mutable_data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      numbers[i * columns + j] = static_cast<float>(value(i, j));
    }
  }
  return matrix;
}

std::string NameOf(const at::Device& device) {
  return at::DeviceTypeName(device.type(), /*lower_case=*/true);
}

// Names and values may be any bytes.
json Variables() {
  json variables = json::object();
  for (const auto& [name, value] :
       host::ThoseThatMatter(host::CurrentEnvironment())) {
    variables[base::Printable(name)] = base::Printable(value);
  }
  return variables;
}

json Facts() {
  json backends = json::array();
  for (const device::Backend& backend : device::ListBackends()) {
    backends.push_back({{"name", backend.name},
                        {"built", backend.built},
                        {"available", backend.available},
                        {"device", backend.device},
                        {"problem", backend.problem}});
  }
  return {{"worker_version", WorkerVersion()},
          {"protocol_version", wire::kProtocolVersion},
          {"torch_version", TorchVersionIn(at::show_config())},
          {"built_against", TorchVersion()},
          {"backends", std::move(backends)},
          {"environment", Variables()}};
}

json Matmul() {
  const auto opened = device::OpenBest();
  if (!opened.ok()) throw std::runtime_error(opened.status().ToString());
  device::Device& device = **opened;
  const auto start = std::chrono::steady_clock::now();
  const at::Tensor product =
      at::matmul(LeftOperand().to(device.torch_device()),
                 RightOperand().to(device.torch_device()));
  device.Synchronize();
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  return {{"asked_device", device.name()},
          {"result_device", NameOf(product.device())},
          {"right", IsRightProduct(product.cpu())},
          {"seconds", took.count()}};
}

void Print(const json& object, std::ostream& out) {
  out << object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n'
      << std::flush;
}

}  // namespace

at::Tensor LeftOperand() { return Matrix(kRows, kSums, Left); }
at::Tensor RightOperand() { return Matrix(kSums, kColumns, Right); }

bool IsRightProduct(const at::Tensor& product) {
  if (!product.sizes().equals({kRows, kColumns}) ||
      product.scalar_type() != at::kFloat) {
    return false;
  }
  const at::Tensor numbers = product.contiguous();
  const float* at = numbers.const_data_ptr<float>();
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < kSums; ++k) sum += Left(i, k) * Right(k, j);
      if (at[i * kColumns + j] != static_cast<float>(sum)) return false;
    }
  }
  return true;
}

std::string TorchVersionIn(std::string_view config) {
  constexpr std::string_view kKey = "TORCH_VERSION=";
  const size_t at = config.find(kKey);
  if (at == std::string_view::npos) return "";
  config.remove_prefix(at + kKey.size());
  return std::string(config.substr(0, config.find_first_of(", \n")));
}

int RunGates(std::ostream& out, std::ostream& err) {
  try {
    Print(Facts(), out);
    Print({{"matmul", Matmul()}}, out);
    return 0;
  } catch (const std::exception& e) {
    err << "mpsd-worker: " << base::Printable(e.what(), base::Breaks::kKeep)
        << '\n';
    return 1;
  }
}

}  // namespace mpsd::worker
