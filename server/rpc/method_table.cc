// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/method_table.h"

#include <deque>

namespace mpsd::rpc {

class MethodTable::Service final : public grpc::Service {
 public:
  void Add(std::string path, grpc::internal::RpcMethod::RpcType type,
           grpc::internal::MethodHandler* handler) {
    const int index = size();
    paths_.push_back(std::move(path));
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.back().c_str(), type,
                                                   nullptr));
    MarkMethodCallback(index, handler);
  }
  int size() const { return static_cast<int>(paths_.size()); }

 private:
  std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

void MethodTable::Add(access::Method method,
                      grpc::internal::RpcMethod::RpcType type,
                      const google::protobuf::Descriptor* request,
                      const google::protobuf::Descriptor* response,
                      grpc::internal::MethodHandler* handler) {
  const google::protobuf::MethodDescriptor* found =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          absl::StrCat("mpsd.v1.", method.rule().method));
  base::Check(found != nullptr, "a row is of a method of mpsd.v1");
  base::Check(
      found->input_type() == request && found->output_type() == response,
      "a row has the messages of its method");
  const std::string& service = found->service()->full_name();
  std::shared_ptr<Service>& rows = services_[service];
  if (rows == nullptr) rows = std::make_shared<Service>();
  rows->Add(absl::StrCat("/", service, "/", found->name()), type, handler);
}

void MethodTable::Register(grpc::ServerBuilder& builder) {
  for (const auto& [name, service] : services_) {
    base::Check(google::protobuf::DescriptorPool::generated_pool()
                        ->FindServiceByName(name)
                        ->method_count() == service->size(),
                "each method of a service has a row");
    builder.RegisterService(service.get());
  }
}

}  // namespace mpsd::rpc
