#include "kernels/comm/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// How often a rank that waits looks for errors of others.
constexpr absl::Duration kPollInterval = absl::Microseconds(20);

absl::Status Check(ncclResult_t result, const char* operation) {
  if (result == ncclSuccess || result == ncclInProgress) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("NCCL: ", operation, ": ", ncclGetErrorString(result)));
}

absl::Status Check(cudaError_t error, const char* operation) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("CUDA: ", operation, ": ",
                                          cudaGetErrorName(error), ": ",
                                          cudaGetErrorString(error)));
}

absl::Status CheckOrdinals(absl::Span<const int> ordinals) {
  std::vector<int> sorted(ordinals.begin(), ordinals.end());
  std::sort(sorted.begin(), sorted.end());
  const bool repeated =
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (!ordinals.empty() && !repeated) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("NCCL needs each GPU once, and one at least: cuda:",
                   absl::StrJoin(ordinals, ",cuda:")));
}

// One rank. Meetings, their checks of nothing but order, and Abort are those of
// the local group `meeting_`; the data go through NCCL.
class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(int ordinal, ncclComm_t comm,
                   std::unique_ptr<Communicator> meeting)
      : ordinal_(ordinal), comm_(comm), meeting_(std::move(meeting)) {}

  ~NcclCommunicator() override {
    cudaSetDevice(ordinal_);
    if (status().ok()) {
      if (comm_ != nullptr) ncclCommDestroy(comm_);
    } else {
      AbortComm();  // an orderly end would wait for ranks that have aborted
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  int rank() const override { return meeting_->rank(); }
  int world_size() const override { return meeting_->world_size(); }

  absl::Status Exchange(Backend& backend, absl::Span<const Send> sends,
                        absl::Span<const Receive> receives) override {
    return Run(backend, [&] { return IssueExchange(sends, receives); });
  }

  // NCCL's own all-gather wants equal parts: a broadcast of each.
  absl::Status AllGather(Backend& backend, float* data,
                         absl::Span<const int64_t> offsets) override {
    return Run(backend, [&]() -> absl::Status {
      for (int root = 0; root < world_size(); ++root) {
        float* const part = data + offsets[root];
        RETURN_IF_ERROR(
            Check(ncclBroadcast(part, part, offsets[root + 1] - offsets[root],
                                ncclFloat, root, comm_, stream_),
                  "broadcast"));
      }
      return absl::OkStatus();
    });
  }

  absl::Status Barrier() override { return meeting_->Barrier(); }
  void Abort(absl::Status status) override {
    meeting_->Abort(std::move(status));
  }
  absl::Status status() const override { return meeting_->status(); }

 private:
  // Issues one group of operations and waits for its end. Whatever fails here
  // ends every rank; a rank that others wait for in vain is aborted by whoever
  // saw why (the Abort of the trainer).
  template <typename F>
  absl::Status Run(Backend& backend, const F& issue) {
    absl::Status status = [&]() -> absl::Status {
      RETURN_IF_ERROR(backend.Synchronize());
      // All ranks come, or none enters NCCL, where it could only hang.
      RETURN_IF_ERROR(meeting_->Barrier());
      RETURN_IF_ERROR(Prepare());
      RETURN_IF_ERROR(Check(ncclGroupStart(), "group start"));
      absl::Status issued = issue();
      issued.Update(Check(ncclGroupEnd(), "group end"));
      RETURN_IF_ERROR(issued);
      return Wait();
    }();
    if (!status.ok()) {
      meeting_->Abort(status);
      AbortComm();
    }
    return status;
  }

  absl::Status Prepare() {
    if (comm_ == nullptr) {
      return absl::FailedPreconditionError("NCCL: the group was aborted");
    }
    RETURN_IF_ERROR(Check(cudaSetDevice(ordinal_), "cudaSetDevice"));
    if (stream_ != nullptr) return absl::OkStatus();
    return Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreate");
  }

  absl::Status IssueExchange(absl::Span<const Send> sends,
                             absl::Span<const Receive> receives) {
    RETURN_IF_ERROR(CopyOwn(sends[rank()], receives[rank()]));
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == rank()) continue;
      const Send& send = sends[peer];
      const Receive& receive = receives[peer];
      if (send.count > 0) {
        RETURN_IF_ERROR(Check(
            ncclSend(send.data, send.count, ncclFloat, peer, comm_, stream_),
            "send"));
      }
      if (receive.count > 0) {
        RETURN_IF_ERROR(Check(ncclRecv(receive.data, receive.count, ncclFloat,
                                       peer, comm_, stream_),
                              "receive"));
      }
    }
    return absl::OkStatus();
  }

  // What a rank sends to itself, which may be in place.
  absl::Status CopyOwn(const Send& send, const Receive& receive) {
    if (send.count == 0 || send.data == receive.data) return absl::OkStatus();
    return Check(
        cudaMemcpyAsync(receive.data, send.data, send.count * sizeof(float),
                        cudaMemcpyDeviceToDevice, stream_),
        "copy");
  }

  absl::Status Wait() {
    for (;;) {
      const cudaError_t done = cudaStreamQuery(stream_);
      if (done != cudaErrorNotReady) return Check(done, "collective");
      ncclResult_t error = ncclSuccess;
      RETURN_IF_ERROR(
          Check(ncclCommGetAsyncError(comm_, &error), "asynchronous error"));
      RETURN_IF_ERROR(Check(error, "collective"));
      RETURN_IF_ERROR(meeting_->status());
      absl::SleepFor(kPollInterval);
    }
  }

  void AbortComm() {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  const int ordinal_;
  ncclComm_t comm_;
  const std::unique_ptr<Communicator> meeting_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
CreateNcclCommunicators(absl::Span<const int> ordinals) {
  RETURN_IF_ERROR(CheckOrdinals(ordinals));
  std::vector<ncclComm_t> comms(ordinals.size());
  RETURN_IF_ERROR(
      Check(ncclCommInitAll(comms.data(), static_cast<int>(ordinals.size()),
                            ordinals.data()),
            "ncclCommInitAll"));
  auto meetings = CreateLocalCommunicators(static_cast<int>(ordinals.size()));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t r = 0; r < ordinals.size(); ++r) {
    communicators.push_back(std::make_unique<NcclCommunicator>(
        ordinals[r], comms[r], std::move(meetings[r])));
  }
  return communicators;
}

}  // namespace recurve
