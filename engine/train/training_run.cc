#include "engine/train/training_run.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/data/data_sizes.h"
#include "engine/data/dataset.h"
#include "engine/data/dataset_split.h"
#include "engine/data/vocabulary.h"
#include "engine/model/initialize.h"
#include "engine/train/call_bounds.h"
#include "engine/train/training_sizes.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kByteIds = 256;

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
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

absl::Status CheckCancelled(const std::atomic<bool>* cancelled) {
  const bool stop = cancelled != nullptr && *cancelled;
  return stop ? absl::CancelledError("while the data were read")
              : absl::OkStatus();
}

// What a run is made of.
struct Start {
  TrainableModel model;
  Dataset dataset;
};

// Without weights.
absl::StatusOr<Start> StartUndrawn(const v1::TrainSpec& spec,
                                   const DataFiles& files,
                                   int64_t max_parameters) {
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
  return start;
}

absl::StatusOr<Start> StartNew(const v1::TrainSpec& spec,
                               const DataFiles& files, int64_t max_parameters) {
  ASSIGN_OR_RETURN(Start start, StartUndrawn(spec, files, max_parameters));
  start.model.parameters =
      InitializeParameters(*start.model.model, spec.trainer().seed());
  return start;
}

// The data as this model reads them.
absl::StatusOr<Dataset> ParseFor(const TrainableModel& model,
                                 const DataFiles& files,
                                 const v1::DataFormat& format) {
  ASSIGN_OR_RETURN(const auto vocabulary, MakeVocabulary(model.vocabulary));
  ASSIGN_OR_RETURN(Dataset dataset,
                   ParseDataset(files, format, PointerTo(vocabulary)));
  RETURN_IF_ERROR(CheckDataset(dataset, *model.model));
  return dataset;
}

absl::StatusOr<Start> StartFrom(TrainableModel model, const v1::TrainSpec& spec,
                                const DataFiles& files) {
  Start start;
  start.model = std::move(model);
  ASSIGN_OR_RETURN(start.dataset, ParseFor(start.model, files, spec.format()));
  return start;
}

absl::StatusOr<Start> StartFromVersion(const v1::TrainSpec& spec,
                                       const DataFiles& files,
                                       ModelExchange& models) {
  ASSIGN_OR_RETURN(
      TrainableModel model,
      models.Load(spec.from_version().empty() ? spec.model()
                                              : spec.from_version()));
  return StartFrom(std::move(model), spec, files);
}

// Cuts the last held_out_characters tokens off.
absl::StatusOr<std::shared_ptr<const Dataset>> HoldOut(
    const v1::TrainSpec& spec, Dataset* dataset) {
  const int64_t count = spec.held_out_characters();
  if (count == 0) return nullptr;
  const int64_t size = DatasetSize(*dataset);
  if (count < size) {
    return std::make_shared<const Dataset>(CutEnd(count, dataset));
  }
  return Bad("held_out_characters",
             absl::StrCat(count, " of a text of ", size, " tokens"));
}

// Cuts the fraction off the end of what is left of the data.
absl::StatusOr<std::shared_ptr<const Dataset>> CutFraction(double fraction,
                                                           Dataset* dataset) {
  const int64_t size = DatasetSize(*dataset);
  const auto count = static_cast<int64_t>(fraction * static_cast<double>(size));
  const bool text = std::holds_alternative<TextDataset>(*dataset);
  const int64_t least = text ? 2 : 1;
  if (count >= least && size - count >= least) {
    return std::make_shared<const Dataset>(CutEnd(count, dataset));
  }
  return Bad("validation.fraction",
             absl::StrCat(fraction, " of ", size,
                          text ? " tokens" : " sequences", " is ", count, "; ",
                          least, " or more must be in it and outside of it"));
}

absl::Status AddValidation(const v1::TrainSpec& spec,
                           const DatasetStore& datasets, Dataset* dataset,
                           TrainingRun* run) {
  if (!spec.has_validation()) return absl::OkStatus();
  const v1::ValidationConfig& config = spec.validation();
  if (!config.has_source()) {
    ASSIGN_OR_RETURN(run->validation, CutFraction(config.fraction(), dataset));
    return absl::OkStatus();
  }
  const auto read = [&]() -> absl::StatusOr<Dataset> {
    ASSIGN_OR_RETURN(const DataFiles files,
                     ReadDataFiles(datasets, config.source(), spec.format()));
    run->validation_sha256 = Sha256Hex(files.data);
    return ParseFor(run->start, files, spec.format());
  };
  auto validation = read();
  if (!validation.ok()) {
    return absl::Status(
        validation.status().code(),
        absl::StrCat("validation.source: ", validation.status().message()));
  }
  if (DatasetSize(*validation) < 2 && spec.format().has_text()) {
    return Bad("validation.source", "the text leaves nothing to predict");
  }
  run->validation = std::make_shared<const Dataset>(*std::move(validation));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> MaxBatches(const v1::TrainSpec& spec,
                                                  int64_t batches_per_epoch) {
  const int64_t accumulation = AccumulationSteps(spec);
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  // No product overflows: steps and epochs are 2^40 at most, accumulation is
  // below 2^21.
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

std::string DataSha256(const DataFiles& files) {
  Sha256 sha256;
  sha256.Update(files.data);
  sha256.Update(files.targets);
  return sha256.Finish();
}

using StartFunction =
    absl::FunctionRef<absl::StatusOr<Start>(const DataFiles& files)>;

absl::StatusOr<TrainingRun> Prepare(const v1::TrainSpec& spec,
                                    const DatasetStore& datasets,
                                    StartFunction start_from,
                                    absl::string_view data_sha256,
                                    const std::atomic<bool>* cancelled) {
  RETURN_IF_ERROR(CheckTrainSpec(spec));
  ASSIGN_OR_RETURN(DataFiles files,
                   ReadDataFiles(datasets, spec.data(), spec.format()));
  RETURN_IF_ERROR(CheckCancelled(cancelled));
  TrainingRun run;
  run.data_sha256 = DataSha256(files);
  RETURN_IF_ERROR(CheckSameData("data", data_sha256, run.data_sha256));
  RETURN_IF_ERROR(CheckCancelled(cancelled));
  ASSIGN_OR_RETURN(Start start, start_from(files));
  files = DataFiles();  // as large as the dataset
  RETURN_IF_ERROR(CheckCancelled(cancelled));
  run.start = std::move(start.model);
  ASSIGN_OR_RETURN(run.held_out, HoldOut(spec, &start.dataset));
  RETURN_IF_ERROR(AddValidation(spec, datasets, &start.dataset, &run));
  RETURN_IF_ERROR(CheckCancelled(cancelled));
  const auto dataset =
      std::make_shared<const Dataset>(std::move(start.dataset));
  ASSIGN_OR_RETURN(run.loader, Loader::Create(dataset, spec.loader(),
                                              spec.trainer().seed()));
  run.calls = BoundsOfBatches(*dataset, spec.loader());
  const int64_t batches = run.loader->batches_per_epoch();
  RETURN_IF_ERROR(CheckStreams(spec, *run.start.model, batches));
  ASSIGN_OR_RETURN(run.max_batches, MaxBatches(spec, batches));
  return run;
}

}  // namespace

absl::Status CheckParameterCount(const Model& model, int64_t max_parameters) {
  const int64_t count = model.parameters().parameter_count();
  if (count <= max_parameters) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("config: the model has ", count,
                   " parameters, the limit is ", max_parameters));
}

absl::Status CheckSameData(absl::string_view field, absl::string_view before,
                           absl::string_view now) {
  if (before.empty() || before == now) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      field, ": the dataset changed under the job: its sha256 was ", before,
      " when the job began, now it is ", now));
}

absl::StatusOr<TrainingRun> PrepareTrainingRun(
    const v1::TrainSpec& spec, const DatasetStore& datasets,
    ModelExchange& models, int64_t max_parameters,
    const std::atomic<bool>* cancelled) {
  const auto start = [&](const DataFiles& files) {
    return spec.has_config() ? StartNew(spec, files, max_parameters)
                             : StartFromVersion(spec, files, models);
  };
  return Prepare(spec, datasets, start, /*data_sha256=*/"", cancelled);
}

absl::StatusOr<TrainingSizes> SizesOfTrainingRun(const v1::TrainSpec& spec,
                                                 const DatasetStore& datasets,
                                                 ModelExchange& models,
                                                 int64_t max_parameters) {
  const auto start = [&](const DataFiles& files) {
    return spec.has_config() ? StartUndrawn(spec, files, max_parameters)
                             : StartFromVersion(spec, files, models);
  };
  ASSIGN_OR_RETURN(const TrainingRun run,
                   Prepare(spec, datasets, start, /*data_sha256=*/"",
                           /*cancelled=*/nullptr));
  return TrainingSizes{run.start.model, run.calls, run.validation,
                       run.held_out};
}

absl::StatusOr<TrainingRun> ResumeTrainingRun(
    const v1::TrainSpec& spec, const DatasetStore& datasets,
    TrainableModel model, absl::string_view data_sha256,
    const std::atomic<bool>* cancelled) {
  const auto start = [&](const DataFiles& files) {
    return StartFrom(std::move(model), spec, files);
  };
  return Prepare(spec, datasets, start, data_sha256, cancelled);
}

}  // namespace recurve
