#include "engine/train/training_run.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/resource_id.h"
#include "engine/model/initialize.h"
#include "engine/train/data_sizes.h"
#include "engine/train/dataset.h"
#include "engine/train/trainer_config.h"
#include "engine/train/vocabulary.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kByteIds = 256;
// Of max_steps, max_epochs and max_seconds: far beyond use, far from overflow.
constexpr int64_t kMaxLimit = int64_t{1} << 40;

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckModelName(absl::string_view name) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, "models/")) {
    return Bad("model", absl::StrCat("\"", name, "\" is not models/NAME"));
  }
  return CheckResourceId(id, "model");
}

absl::Status CheckRange(absl::string_view field, int64_t value) {
  if (value >= 0 && value <= kMaxLimit) return absl::OkStatus();
  return Bad(field, absl::StrCat(value, " is not in [0, ", kMaxLimit, "]"));
}

absl::Status CheckLimits(const v1::TrainSpec& spec) {
  RETURN_IF_ERROR(CheckRange("max_steps", spec.max_steps()));
  RETURN_IF_ERROR(CheckRange("max_epochs", spec.max_epochs()));
  RETURN_IF_ERROR(CheckRange("max_seconds", spec.max_seconds()));
  RETURN_IF_ERROR(CheckRange("report_every_steps", spec.report_every_steps()));
  RETURN_IF_ERROR(
      CheckRange("held_out_characters", spec.held_out_characters()));
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

// A model's vocabulary; none where there are no tokens in it.
absl::StatusOr<std::optional<Vocabulary>> MakeVocabulary(
    const std::vector<std::string>& tokens) {
  if (tokens.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Create(tokens));
  return vocabulary;
}

const Vocabulary* PointerTo(const std::optional<Vocabulary>& vocabulary) {
  return vocabulary.has_value() ? &*vocabulary : nullptr;
}

// A model's vocabulary and its token ids are one thing.
absl::Status CheckVocabularySize(const v1::ModelConfig& config,
                                 const std::optional<Vocabulary>& vocabulary) {
  if (!vocabulary.has_value() || !config.input().has_token_embedding()) {
    return absl::OkStatus();
  }
  const int64_t size = config.input().token_embedding().vocabulary_size();
  if (size == vocabulary->size()) return absl::OkStatus();
  return Bad("config.input.token_embedding.vocabulary_size",
             absl::StrCat(size, ", but the text has ", vocabulary->size(),
                          " different characters (0 takes that number)"));
}

struct Start {
  TrainableModel model;
  Dataset dataset;
};

absl::StatusOr<Start> StartNew(const v1::TrainSpec& spec,
                               const DataFiles& files, int64_t max_parameters) {
  Start start;
  if (spec.format().has_text()) {
    ASSIGN_OR_RETURN(start.model.vocabulary,
                     VocabularyOfText(files.data, spec.format().text()));
  }
  ASSIGN_OR_RETURN(const auto vocabulary,
                   MakeVocabulary(start.model.vocabulary));
  ASSIGN_OR_RETURN(start.dataset,
                   ParseDataset(files, spec.format(), PointerTo(vocabulary)));
  v1::ModelConfig config = spec.config();
  FillDataSizes(start.dataset, vocabulary ? vocabulary->size() : kByteIds,
                &config);
  RETURN_IF_ERROR(CheckVocabularySize(config, vocabulary));
  ASSIGN_OR_RETURN(start.model.model, Model::Create(config));
  RETURN_IF_ERROR(CheckParameterCount(*start.model.model, max_parameters));
  RETURN_IF_ERROR(CheckDataset(start.dataset, *start.model.model));
  start.model.parameters =
      InitializeParameters(*start.model.model, spec.trainer().seed());
  return start;
}

absl::StatusOr<Start> StartFromVersion(const v1::TrainSpec& spec,
                                       const DataFiles& files,
                                       ModelExchange& models) {
  Start start;
  ASSIGN_OR_RETURN(start.model, models.Load(spec.from_version().empty()
                                                ? spec.model()
                                                : spec.from_version()));
  ASSIGN_OR_RETURN(const auto vocabulary,
                   MakeVocabulary(start.model.vocabulary));
  ASSIGN_OR_RETURN(start.dataset,
                   ParseDataset(files, spec.format(), PointerTo(vocabulary)));
  RETURN_IF_ERROR(CheckDataset(start.dataset, *start.model.model));
  return start;
}

// Cuts the last `count` tokens off.
absl::StatusOr<std::vector<int32_t>> HoldOut(int64_t count, Dataset* dataset) {
  if (count == 0) return std::vector<int32_t>();
  std::vector<int32_t>& tokens = std::get<TextDataset>(*dataset).tokens;
  if (count >= static_cast<int64_t>(tokens.size())) {
    return Bad("held_out_characters",
               absl::StrCat(count, " of a text of ", tokens.size(), " tokens"));
  }
  std::vector<int32_t> held_out(tokens.end() - count, tokens.end());
  tokens.resize(tokens.size() - held_out.size());
  return held_out;
}

absl::StatusOr<std::optional<int64_t>> MaxBatches(const v1::TrainSpec& spec,
                                                  int64_t batches_per_epoch) {
  const int64_t accumulation =
      std::max<int64_t>(1, spec.trainer().accumulation_steps());
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // No product overflows: kMaxLimit is 2^40, accumulation below 2^21.
  int64_t steps = spec.max_steps() > 0 ? spec.max_steps() : kNoLimit;
  if (spec.max_epochs() > 0) {
    const int64_t epochs =
        std::min(spec.max_epochs(), kNoLimit / batches_per_epoch);
    steps = std::min(steps, epochs * batches_per_epoch / accumulation);
  }
  if (steps == 0) {
    return Bad("max_epochs",
               absl::StrCat(spec.max_epochs(), " epochs of ", batches_per_epoch,
                            " batches are less than one step of ", accumulation,
                            " (trainer.accumulation_steps)"));
  }
  if (steps == kNoLimit) return std::nullopt;
  return std::min(steps, kNoLimit / accumulation) * accumulation;
}

// Streams carry the state from batch to batch, in one direction.
absl::Status CheckStreams(const v1::TrainSpec& spec, const Model& model,
                          int64_t batches_per_epoch) {
  if (!spec.format().has_text() || !model.bidirectional() ||
      batches_per_epoch == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "a bidirectional model cannot be trained on text, whose state is carried "
      "from batch to batch; use sequences, or an unroll that covers the "
      "stream");
}

}  // namespace

absl::Status CheckParameterCount(const Model& model, int64_t max_parameters) {
  const int64_t count = model.parameters().parameter_count();
  if (count <= max_parameters) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("config: the model has ", count,
                   " parameters, the limit is ", max_parameters));
}

absl::Status CheckTrainSpec(const v1::TrainSpec& spec) {
  RETURN_IF_ERROR(CheckModelName(spec.model()));
  RETURN_IF_ERROR(CheckData(spec));
  RETURN_IF_ERROR(CheckLimits(spec));
  RETURN_IF_ERROR(CheckHeldOut(spec));
  RETURN_IF_ERROR(ResolveTrainerConfig(spec.trainer()).status());
  return CheckStart(spec);
}

absl::StatusOr<TrainingRun> PrepareTrainingRun(const v1::TrainSpec& spec,
                                               const DatasetStore& datasets,
                                               ModelExchange& models,
                                               int64_t max_parameters) {
  RETURN_IF_ERROR(CheckTrainSpec(spec));
  ASSIGN_OR_RETURN(const DataFiles files,
                   ReadDataFiles(datasets, spec.data(), spec.format()));
  ASSIGN_OR_RETURN(Start start, spec.has_config()
                                    ? StartNew(spec, files, max_parameters)
                                    : StartFromVersion(spec, files, models));
  TrainingRun run;
  run.start = std::move(start.model);
  ASSIGN_OR_RETURN(run.held_out,
                   HoldOut(spec.held_out_characters(), &start.dataset));
  ASSIGN_OR_RETURN(
      run.loader,
      Loader::Create(std::make_shared<const Dataset>(std::move(start.dataset)),
                     spec.loader(), spec.trainer().seed()));
  const int64_t batches = run.loader->batches_per_epoch();
  RETURN_IF_ERROR(CheckStreams(spec, *run.start.model, batches));
  ASSIGN_OR_RETURN(run.max_batches, MaxBatches(spec, batches));
  return run;
}

}  // namespace recurve
