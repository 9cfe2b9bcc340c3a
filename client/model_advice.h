// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_MODEL_ADVICE_H_
#define MPSD_CLIENT_MODEL_ADVICE_H_

#include <grpcpp/support/status.h>

#include <filesystem>
#include <string>

namespace mpsd::client {

// What to do about a Submit of this spec that ended with `status`: how to send
// the model, where it is a folder of this machine that the daemon cannot read.
// "" for any other error.
std::string ModelAdvice(const std::string& spec_json,
                        const grpc::Status& status);

// What a pushed folder is called where the user does not say: the id of a
// snapshot in a Hugging Face cache, else the folder's name.
std::string ModelNameOf(const std::filesystem::path& folder);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_MODEL_ADVICE_H_
