// A replica's state between host memory and its device.
#include "engine/model/transfer.h"
#include "engine/train/device_replica.h"
#include "engine/train/trainer_config.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status UploadOrZero(Backend& backend, DeviceArray& to, int64_t count,
                          absl::Span<const float> from) {
  RETURN_IF_ERROR(to.Reserve(backend, count));
  return from.empty()
             ? backend.Zero(to.data(),
                            count * static_cast<int64_t>(sizeof(float)))
             : Upload<float>(backend, to.data(), from);
}

}  // namespace

absl::Status DeviceReplica::DownloadParameters(absl::Span<float> parameters) {
  return Download<float>(backend_, parameters, parameters_.data());
}

absl::Status DeviceReplica::Save(TrainerState& state) {
  const auto download = [&](std::vector<float>& to, const DeviceArray& from) {
    return Download<float>(backend_, absl::MakeSpan(to), from.data());
  };
  if (rank_ == 0) {
    RETURN_IF_ERROR(download(state.parameters, parameters_));
    RETURN_IF_ERROR(download(state.first_moment, first_moment_));
    RETURN_IF_ERROR(download(state.second_moment, second_moment_));
  }
  if (state.accumulated_gradient.empty()) return absl::OkStatus();
  const Range shard = exchange_.shard();
  return Download<float>(backend_,
                         absl::MakeSpan(state.accumulated_gradient)
                             .subspan(shard.begin, shard.size()),
                         accumulated_.data());
}

absl::Status DeviceReplica::Load(const TrainerState& state) {
  executor_.reset();  // it has read scale_x
  reserved_ = {};
  RETURN_IF_ERROR(
      UploadOrZero(backend_, parameters_, count(), state.parameters));
  const int moments = NumMoments(optimizer_);
  if (moments >= 1) {
    RETURN_IF_ERROR(
        UploadOrZero(backend_, first_moment_, count(), state.first_moment));
  }
  if (moments >= 2) {
    RETURN_IF_ERROR(
        UploadOrZero(backend_, second_moment_, count(), state.second_moment));
  }
  if (!state.accumulated_gradient.empty()) {
    const Range shard = exchange_.shard();
    RETURN_IF_ERROR(UploadOrZero(backend_, accumulated_, shard.size(),
                                 absl::MakeConstSpan(state.accumulated_gradient)
                                     .subspan(shard.begin, shard.size())));
  }
  ASSIGN_OR_RETURN(executor_,
                   Executor::Create(model_, backend_, parameters_.data()));
  return absl::OkStatus();
}

}  // namespace recurve
