#include "engine/train/train_spec.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/resource_id.h"
#include "engine/data/data_sizes.h"
#include "engine/model/model.h"
#include "engine/train/trainer_config.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Of steps, epochs and seconds: far beyond use, far from overflow.
constexpr int64_t kMaxLimit = int64_t{1} << 40;
constexpr int64_t kMaxKeptCheckpoints = 1000;
// Of the whole spec, which each state of a job is recorded with; fields that
// nobody knows count too.
constexpr size_t kMaxSpecBytes = size_t{1} << 18;

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckSize(const v1::TrainSpec& spec) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= kMaxSpecBytes) return absl::OkStatus();
  return Bad("spec",
             absl::StrCat(bytes, " bytes, the limit is ", kMaxSpecBytes));
}

absl::Status CheckModelName(absl::string_view name) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "models/")) {
    return Bad("model", absl::StrCat("\"", name, "\" is not models/NAME"));
  }
  return CheckResourceId(id, "model");
}

absl::Status CheckRange(absl::string_view field, int64_t value,
                        int64_t max = kMaxLimit) {
  if (value >= 0 && value <= max) return absl::OkStatus();
  return Bad(field, absl::StrCat(value, " is not in [0, ", max, "]"));
}

absl::Status CheckLimits(const v1::TrainSpec& spec) {
  RETURN_IF_ERROR(CheckRange("max_steps", spec.max_steps()));
  RETURN_IF_ERROR(CheckRange("max_epochs", spec.max_epochs()));
  RETURN_IF_ERROR(CheckRange("max_seconds", spec.max_seconds()));
  RETURN_IF_ERROR(CheckRange("report_every_steps", spec.report_every_steps()));
  RETURN_IF_ERROR(
      CheckRange("held_out_characters", spec.held_out_characters()));
  RETURN_IF_ERROR(CheckRange("max_roll_backs", spec.max_roll_backs()));
  if (spec.max_steps() > 0 || spec.max_epochs() > 0 || spec.max_seconds() > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "one of max_steps, max_epochs and max_seconds must be set");
}

absl::Status CheckHeldOut(const v1::TrainSpec& spec) {
  if (spec.held_out_characters() == 0) return absl::OkStatus();
  if (!spec.format().has_text()) {
    return Bad("held_out_characters", "only text can be held out");
  }
  if (spec.held_out_characters() == 1) {
    return Bad("held_out_characters", "1 leaves nothing to predict");
  }
  return absl::OkStatus();
}

absl::Status CheckValidationData(const v1::TrainSpec& spec) {
  const v1::ValidationConfig& config = spec.validation();
  switch (config.data_case()) {
    case v1::ValidationConfig::kFraction:
      if (config.fraction() > 0 && config.fraction() < 1) {
        return absl::OkStatus();
      }
      return Bad("validation.fraction",
                 absl::StrCat(config.fraction(), " is not in (0, 1)"));
    case v1::ValidationConfig::kSource:
      if (!spec.format().npy().has_targets()) return absl::OkStatus();
      return Bad("validation.source",
                 "arrays with targets have no place for a second file of "
                 "targets; use validation.fraction");
    case v1::ValidationConfig::DATA_NOT_SET:
      break;
  }
  return Bad("validation", "one of fraction and source must be set");
}

absl::Status CheckValidation(const v1::TrainSpec& spec) {
  if (!spec.has_validation()) return absl::OkStatus();
  const v1::ValidationConfig& config = spec.validation();
  RETURN_IF_ERROR(CheckValidationData(spec));
  RETURN_IF_ERROR(CheckRange("validation.every_steps", config.every_steps()));
  RETURN_IF_ERROR(CheckRange("validation.patience", config.patience()));
  if (config.min_improvement() >= 0 &&
      std::isfinite(config.min_improvement())) {
    return absl::OkStatus();
  }
  return Bad("validation.min_improvement",
             absl::StrCat(config.min_improvement(), " must be 0 or more"));
}

absl::Status CheckCheckpoints(const v1::CheckpointConfig& config) {
  RETURN_IF_ERROR(CheckRange("checkpoints.every_steps", config.every_steps()));
  RETURN_IF_ERROR(
      CheckRange("checkpoints.every_seconds", config.every_seconds()));
  return CheckRange("checkpoints.keep_last", config.keep_last(),
                    kMaxKeptCheckpoints);
}

absl::Status CheckChoices(const v1::TrainSpec& spec) {
  if (!v1::TrainSpec::NonFinite_IsValid(spec.non_finite())) {
    return Bad("non_finite", absl::StrCat(spec.non_finite(), " is unknown"));
  }
  if (!v1::TrainSpec::Publish_IsValid(spec.publish())) {
    return Bad("publish", absl::StrCat(spec.publish(), " is unknown"));
  }
  if (spec.publish() == v1::TrainSpec::BEST && !spec.has_validation()) {
    return Bad("publish", "BEST needs `validation` to say what is best");
  }
  return absl::OkStatus();
}

absl::Status CheckStart(const v1::TrainSpec& spec) {
  if (!spec.has_config()) return absl::OkStatus();
  if (!spec.from_version().empty()) {
    return absl::InvalidArgumentError(
        "config and from_version exclude each other");
  }
  if (LeavesSizesToData(spec.config())) return absl::OkStatus();
  return Model::Create(spec.config()).status();
}

absl::Status CheckData(const v1::TrainSpec& spec) {
  if (spec.data().source_case() == v1::DataSource::SOURCE_NOT_SET) {
    return Bad("data", "one of dataset and server_path must be set");
  }
  if (spec.format().format_case() == v1::DataFormat::FORMAT_NOT_SET) {
    return Bad("format", "one of text, json_lines and npy must be set");
  }
  if (spec.loader().batch_size() < 1) {
    return Bad("loader.batch_size",
               absl::StrCat(spec.loader().batch_size(), " is below 1"));
  }
  return absl::OkStatus();
}

int64_t OrDefault(int64_t value, int64_t otherwise) {
  return value > 0 ? value : otherwise;
}

}  // namespace

absl::Status CheckTrainSpec(const v1::TrainSpec& spec) {
  RETURN_IF_ERROR(CheckSize(spec));
  RETURN_IF_ERROR(CheckModelName(spec.model()));
  RETURN_IF_ERROR(CheckData(spec));
  RETURN_IF_ERROR(CheckLimits(spec));
  RETURN_IF_ERROR(CheckHeldOut(spec));
  RETURN_IF_ERROR(CheckValidation(spec));
  RETURN_IF_ERROR(CheckCheckpoints(spec.checkpoints()));
  RETURN_IF_ERROR(CheckChoices(spec));
  RETURN_IF_ERROR(ResolveTrainerConfig(spec.trainer()).status());
  return CheckStart(spec);
}

int64_t AccumulationSteps(const v1::TrainSpec& spec) {
  return OrDefault(spec.trainer().accumulation_steps(), 1);
}
int64_t ReportEverySteps(const v1::TrainSpec& spec) {
  return OrDefault(spec.report_every_steps(), 10);
}
int64_t EvaluateEverySteps(const v1::TrainSpec& spec) {
  return OrDefault(spec.validation().every_steps(), 100);
}
int KeepLastCheckpoints(const v1::TrainSpec& spec) {
  return static_cast<int>(OrDefault(spec.checkpoints().keep_last(), 2));
}
int64_t CheckpointEverySeconds(const v1::TrainSpec& spec) {
  const v1::CheckpointConfig& config = spec.checkpoints();
  return OrDefault(config.every_seconds(), config.every_steps() > 0 ? 0 : 60);
}
int MaxRollBacks(const v1::TrainSpec& spec) {
  return static_cast<int>(OrDefault(spec.max_roll_backs(), 10));
}
v1::TrainSpec::Publish PublishedWeights(const v1::TrainSpec& spec) {
  if (spec.publish() != v1::TrainSpec::PUBLISH_UNSPECIFIED) {
    return spec.publish();
  }
  return spec.has_validation() ? v1::TrainSpec::BEST : v1::TrainSpec::LAST;
}

}  // namespace recurve
