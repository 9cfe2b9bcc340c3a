// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/app.h"
#include "client/command_line.h"
#include "client/console.h"
#include "client/submit.h"
#include "mpsd/v1/models.pb.h"

namespace mpsd::client {

// Advice for a Submit of this spec that ended with `status`: how to send the
// model, if it is a folder of this machine that the daemon cannot read. "" for
// any other error.
std::string ModelAdvice(const std::string& spec_json,
                        const grpc::Status& status);

// The default name of a pushed folder: the id of a snapshot in a Hugging Face
// cache, else the folder's name.
std::string ModelNameOf(const std::filesystem::path& folder);

// "257.6 MiB, llama, 134,515,008 parameters, for CAUSAL_LM and SEQ_CLS".
std::string ModelText(const v1::Model& model);
// "LoRA takes 1.2 GiB at least, and this machine has it"; "" if unknown.
std::string FitText(const v1::Model& model);

// A model's folder on this machine that can be sent.
struct LocalModel {
  std::vector<LocalFile> files;  // without their hashes
  // Other files in the folder, which mpsd never reads.
  std::vector<std::string> left_out;
};

// Reads the folder as mpsd will (spec::ReadModelFolder), so that nothing is
// sent that it would refuse. Links are followed: a snapshot of a Hugging Face
// cache consists of them. InvalidArgument and NotFound name the file and what
// to do.
absl::StatusOr<LocalModel> ReadLocalModel(const std::filesystem::path& folder);

}  // namespace mpsd::client
