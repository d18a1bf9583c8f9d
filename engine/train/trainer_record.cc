#include "engine/train/trainer_record.h"

#include <utility>

#include "engine/train/device_time_record.h"
#include "engine/train/trainer_record.pb.h"

namespace recurve {
namespace {

internal::LibraryNamesRecord ToProto(const LibraryNames& names) {
  internal::LibraryNamesRecord proto;
  proto.set_embedding(names.embedding);
  for (const BlockNames& block : names.blocks) {
    auto& added = *proto.add_blocks();
    added.set_prefix(block.prefix);
    added.set_style(static_cast<int32_t>(block.style));
  }
  proto.set_output(names.output);
  proto.set_tied_weight_repeated(names.tied_weight_repeated);
  return proto;
}

LibraryNames FromProto(const internal::LibraryNamesRecord& proto) {
  LibraryNames names;
  names.embedding = proto.embedding();
  for (const auto& block : proto.blocks()) {
    names.blocks.push_back(
        {block.prefix(), static_cast<KeyStyle>(block.style())});
  }
  names.output = proto.output();
  names.tied_weight_repeated = proto.tied_weight_repeated();
  return names;
}

internal::StepReplyRecord ToProto(const NumberedReply& reply) {
  const StepResult& result = reply.result;
  internal::StepReplyRecord proto;
  proto.set_number(reply.number);
  proto.set_request_sha256(reply.request_sha256);
  proto.set_step(result.step);
  proto.set_updated(result.updated);
  proto.set_loss(result.loss);
  proto.set_weight(result.weight);
  proto.set_gradient_norm(result.gradient_norm);
  proto.set_learning_rate(result.learning_rate);
  proto.set_rows(result.rows);
  proto.set_accumulated_calls(result.accumulated_calls);
  for (const DeviceTime& time : result.devices) {
    *proto.add_devices() = ToRecord(time);
  }
  return proto;
}

NumberedReply FromProto(const internal::StepReplyRecord& proto) {
  NumberedReply reply;
  reply.number = proto.number();
  reply.request_sha256 = proto.request_sha256();
  StepResult& result = reply.result;
  result.step = proto.step();
  result.updated = proto.updated();
  result.loss = proto.loss();
  result.weight = proto.weight();
  result.gradient_norm = proto.gradient_norm();
  result.learning_rate = proto.learning_rate();
  result.rows = proto.rows();
  result.accumulated_calls = proto.accumulated_calls();
  for (const auto& device : proto.devices()) {
    result.devices.push_back(FromRecord(device));
  }
  return reply;
}

}  // namespace

std::string SerializeTrainerRecord(const TrainerRecord& record) {
  const TrainerOrigin& origin = record.origin;
  internal::TrainerRecord proto;
  proto.set_request_id(origin.request_id);
  proto.set_create_time_ns(absl::ToUnixNanos(origin.create_time));
  proto.set_model_name(origin.model_name);
  if (origin.names.has_value()) {
    *proto.mutable_names() = ToProto(*origin.names);
  }
  *proto.mutable_config() = origin.config;
  proto.set_save_every_calls(origin.save_every_calls);
  proto.set_save_time_ns(absl::ToUnixNanos(record.save_time));
  proto.set_accumulated_calls(record.accumulated_calls);
  for (const NumberedReply& reply : record.calls.replies()) {
    *proto.add_replies() = ToProto(reply);
  }
  return proto.SerializeAsString();
}

absl::StatusOr<TrainerRecord> ParseTrainerRecord(absl::string_view bytes) {
  internal::TrainerRecord proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("the details are not a trainer's record");
  }
  TrainerRecord record;
  TrainerOrigin& origin = record.origin;
  origin.request_id = proto.request_id();
  origin.create_time = absl::FromUnixNanos(proto.create_time_ns());
  origin.model_name = proto.model_name();
  if (proto.has_names()) origin.names = FromProto(proto.names());
  origin.config = proto.config();
  origin.save_every_calls = proto.save_every_calls();
  record.save_time = absl::FromUnixNanos(proto.save_time_ns());
  record.accumulated_calls = proto.accumulated_calls();
  for (const auto& reply : proto.replies()) {
    record.calls.Add(FromProto(reply));
  }
  return record;
}

}  // namespace recurve
