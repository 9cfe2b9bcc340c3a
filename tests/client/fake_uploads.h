// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CLIENT_FAKE_UPLOADS_H_
#define MPSD_TESTS_CLIENT_FAKE_UPLOADS_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/sha256.h"
#include "mpsd/v1/artifacts.grpc.pb.h"

namespace mpsd::client {

// The blobs of a fake daemon. One thread at a time.
struct FakeUploads {
  std::map<std::string, std::string> blobs;  // by hash
  std::map<std::string, std::string> parts;  // of uploads that broke off
  // Bytes after which each of the next uploads breaks off.
  std::vector<size_t> break_offs;
  std::vector<int64_t> offsets;  // where uploads began
  int uploads = 0;               // of blobs
  int batches = 0;               // calls of UploadBatch

  void Find(const v1::FindBlobsRequest& request,
            v1::FindBlobsResponse& response) const {
    for (const std::string& hash : request.sha256()) {
      if (blobs.count(hash) > 0) {
        response.add_present(hash);
      } else if (const auto kept = parts.find(hash); kept != parts.end()) {
        v1::FindBlobsResponse::Partial& part = *response.add_partial();
        part.set_sha256(hash);
        part.set_size_bytes(static_cast<int64_t>(kept->second.size()));
      }
    }
  }

  grpc::Status Take(grpc::ServerReader<v1::UploadRequest>& reader,
                    v1::UploadResponse& response) {
    using grpc::Status, grpc::StatusCode;
    v1::UploadRequest part;
    if (!reader.Read(&part) || !part.has_header()) {
      return Status(StatusCode::INVALID_ARGUMENT, "no header");
    }
    const v1::UploadRequest::Header header = part.header();
    offsets.push_back(header.offset_bytes());
    std::string bytes;
    if (header.offset_bytes() > 0) bytes = parts[header.sha256()];
    parts.erase(header.sha256());
    if (static_cast<int64_t>(bytes.size()) != header.offset_bytes()) {
      return Status(StatusCode::OUT_OF_RANGE, "another offset");
    }
    size_t came = 0;
    while (reader.Read(&part)) {
      came += part.data().size();
      bytes += part.data();
      if (break_offs.empty() || came < break_offs[0]) continue;
      break_offs.erase(break_offs.begin());
      parts[header.sha256()] = bytes;
      return Status(StatusCode::UNAVAILABLE, "Socket closed");
    }
    if (base::Sha256Hex(bytes) != header.sha256() ||
        static_cast<int64_t>(bytes.size()) != header.size_bytes()) {
      return Status(StatusCode::INVALID_ARGUMENT,
                    "the blob's SHA-256 is another");
    }
    blobs[header.sha256()] = bytes;
    ++uploads;
    response.set_sha256(header.sha256());
    return Status::OK;
  }

  grpc::Status TakeBatch(grpc::ServerReader<v1::UploadBatchRequest>& reader,
                         v1::UploadBatchResponse& response) {
    std::map<std::string, std::string> came;
    v1::UploadBatchRequest part;
    while (reader.Read(&part)) {
      for (const v1::UploadBatchRequest::Blob& blob : part.blobs()) {
        if (base::Sha256Hex(blob.data()) != blob.sha256()) {
          return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              "the blob's SHA-256 is another");
        }
        came[blob.sha256()] = blob.data();
      }
    }
    blobs.insert(came.begin(), came.end());
    uploads += static_cast<int>(came.size());
    response.set_stored(static_cast<int>(came.size()));
    return grpc::Status::OK;
  }
};

}  // namespace mpsd::client

#endif  // MPSD_TESTS_CLIENT_FAKE_UPLOADS_H_
