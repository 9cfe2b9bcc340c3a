// SPDX-License-Identifier: Apache-2.0
#include "client/run_files.h"

#include "client/connection.h"
#include "client/run/file_picker.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

using Files = std::map<std::string, std::string>;

bool IsMissing(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  return code == grpc::StatusCode::NOT_FOUND ||
         code == grpc::StatusCode::FAILED_PRECONDITION;
}

void Fetch(const Console& console, const v1::DownloadRequest& request,
           Files& files) {
  grpc::ClientContext context;
  SetDeadline(context);
  auto reader = console.daemon.artifacts().Download(&context, request);
  v1::DownloadResponse part;
  FilePicker picker(files);
  bool wanted = true;
  while (wanted && reader->Read(&part)) wanted = picker.Accept(part);
  picker.Cut();
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted || status.ok() || IsMissing(status)) return;
  picker.Drop();
  console.err << "mpsctl: some files of job " << request.job_id()
              << " are left out: " << Printable(status.error_message()) << '\n';
}

}  // namespace

Files ReadRunFiles(const Console& console, const std::string& job_id) {
  Files files;
  v1::DownloadRequest request;
  request.set_job_id(job_id);
  request.set_manifest(true);
  Fetch(console, request, files);
  request.set_predictions(true);
  Fetch(console, request, files);
  return files;
}

}  // namespace mpsd::client
