// SPDX-License-Identifier: Apache-2.0
// Begins many uploads over many connections and sends nothing more: prints a
// line once all are begun and holds them until its standard input ends.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "mpsd/v1/artifacts.grpc.pb.h"

namespace {

namespace v1 = mpsd::v1;

constexpr int kStreamsOfConnection = 50;

struct Upload {
  grpc::ClientContext context;
  v1::UploadResponse response;
  std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writer;
};

void Begin(v1::ArtifactService::Stub& stub, int number, Upload& upload) {
  const std::string digits = std::to_string(number);
  v1::UploadRequest request;
  request.mutable_header()->set_sha256(std::string(64 - digits.size(), 'a') +
                                       digits);
  request.mutable_header()->set_size_bytes(1);
  upload.writer = stub.Upload(&upload.context, &upload.response);
  upload.writer->Write(request);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int count = std::atoi(argv[2]);
  std::vector<std::unique_ptr<v1::ArtifactService::Stub>> stubs;
  std::vector<std::unique_ptr<Upload>> uploads;
  for (int i = 0; i < count; ++i) {
    if (i % kStreamsOfConnection == 0) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      stubs.push_back(v1::ArtifactService::NewStub(grpc::CreateCustomChannel(
          argv[1], grpc::InsecureChannelCredentials(), arguments)));
    }
    uploads.push_back(std::make_unique<Upload>());
    Begin(*stubs.back(), i, *uploads.back());
  }
  std::cout << "begun" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  for (auto& upload : uploads) upload->context.TryCancel();
  for (auto& upload : uploads) upload->writer->Finish();
}
