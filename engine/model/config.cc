#include "engine/model/config.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Keeps the first error: the later ones follow from it more often than not.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (!message_.empty()) return;
    message_ =
        absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& message() const { return message_; }

 private:
  std::string message_;
};

template <typename Value>
absl::Status Invalid(absl::string_view path, const Value& value,
                     absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", value, " is not ", allowed));
}

absl::Status CheckInteger(absl::string_view path, int64_t value, int64_t low,
                          int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(path, value, absl::StrCat("in [", low, ", ", high, "]"));
}

absl::Status CheckFloat(absl::string_view path, float value, float low,
                        float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(path, value, absl::StrCat("in [", low, ", ", high, "]"));
}

absl::Status CheckDropout(absl::string_view path, float value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Invalid(path, value, "in [0, 1)");
}

// Fields of the wire that this build does not know, at any depth. They ask for
// something that would not be done, and written as text they are numbers, which
// no parser of textproto takes back.
absl::Status CheckKnown(const google::protobuf::Message& message,
                        const std::string& path) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(message);
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.empty() ? "config" : path, ": field number ",
                     unknown.field(0).number(), " is unknown"));
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string name =
        absl::StrCat(path, path.empty() ? "" : ".", field->name());
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(CheckKnown(reflection.GetMessage(message, field), name));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      RETURN_IF_ERROR(
          CheckKnown(reflection.GetRepeatedMessage(message, field, i),
                     absl::StrCat(name, "[", i, "]")));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view path, absl::string_view name) {
  bool good = name.size() <= kMaxNameLength;
  char previous = '.';
  for (const char c : name) {
    good &= absl::ascii_isalnum(c) || c == '_' || (c == '.' && previous != '.');
    previous = c;
  }
  if (good && (name.empty() || previous != '.')) return absl::OkStatus();
  return Invalid(path, absl::StrCat("'", name, "'"),
                 absl::StrCat("a module's name: letters, digits and _, parts "
                              "joined by dots, ",
                              kMaxNameLength, " characters at most"));
}

absl::Status CheckInput(const v1::Input& input) {
  RETURN_IF_ERROR(CheckDropout("input.dropout", input.dropout()));
  switch (input.kind_case()) {
    case v1::Input::kTokenEmbedding: {
      const v1::TokenEmbedding& embedding = input.token_embedding();
      RETURN_IF_ERROR(CheckInteger("input.token_embedding.vocabulary_size",
                                   embedding.vocabulary_size(), 1,
                                   kMaxVocabulary));
      return CheckInteger("input.token_embedding.embedding_size",
                          embedding.embedding_size(), 1, kMaxSize);
    }
    case v1::Input::kFeatures:
      return CheckInteger("input.features.size", input.features().size(), 1,
                          kMaxSize);
    case v1::Input::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "input: neither token_embedding nor features is set");
}

absl::Status CheckProjectionSizes(const std::string& path,
                                  const v1::SruConfig& sru, int64_t layers) {
  const int count = sru.projection_size_size();
  const bool list = sru.library() == v1::SruConfig::SRU_3_DEV;
  if (count > 1 && !list) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".projection_size: ", count,
                     " values; a list is for library SRU_3_DEV only"));
  }
  if (count > 1 && count != layers) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".projection_size: ", count, " values for ", layers,
                     " layers; give none, one or one a layer"));
  }
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(
        CheckInteger(absl::StrCat(path, ".projection_size[", i, "]"),
                     sru.projection_size(i), 0, kMaxSize));
    if (sru.custom_m() != v1::SruConfig::CUSTOM_TRANSFORM_NONE &&
        sru.projection_size(i) != 0) {
      return Invalid(absl::StrCat(path, ".projection_size[", i, "]"),
                     sru.projection_size(i), "0, which custom_m requires");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSru(const std::string& path, const v1::SruConfig& sru) {
  const int64_t layers = sru.has_num_layers() ? sru.num_layers() : 2;
  RETURN_IF_ERROR(CheckInteger(path + ".library", sru.library(), 0,
                               v1::SruConfig::SRU_3_DEV));
  RETURN_IF_ERROR(
      CheckInteger(path + ".hidden_size", sru.hidden_size(), 1, kMaxSize));
  RETURN_IF_ERROR(CheckInteger(path + ".num_layers", layers, 1, kMaxLayers));
  RETURN_IF_ERROR(CheckDropout(path + ".dropout", sru.dropout()));
  RETURN_IF_ERROR(CheckDropout(path + ".rnn_dropout", sru.rnn_dropout()));
  RETURN_IF_ERROR(CheckFloat(path + ".highway_bias", sru.highway_bias(),
                             -kMaxHighwayBias, kMaxHighwayBias));
  RETURN_IF_ERROR(CheckFloat(path + ".weight_c_init", sru.weight_c_init(), 0,
                             kMaxWeightCInit));
  RETURN_IF_ERROR(CheckInteger(path + ".custom_m", sru.custom_m(), 0,
                               v1::SruConfig::CUSTOM_TRANSFORM_UV));
  if (sru.library() == v1::SruConfig::SRU_3_DEV &&
      sru.custom_m() != v1::SruConfig::CUSTOM_TRANSFORM_NONE) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".custom_m: not an option of library SRU_3_DEV"));
  }
  return CheckProjectionSizes(path, sru, layers);
}

// The options that a QRNN block and a ready-made layer of it share.
template <typename Config>
absl::Status CheckQrnnOptions(const std::string& path, const Config& config,
                              bool bidirectional) {
  if (config.has_window()) {
    RETURN_IF_ERROR(CheckInteger(path + ".window", config.window(), 1, 2));
  }
  RETURN_IF_ERROR(CheckFloat(path + ".zoneout", config.zoneout(), 0, 1));
  if (config.save_prev_x() && bidirectional) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".save_prev_x: a bidirectional block keeps no previous input"));
  }
  return absl::OkStatus();
}

absl::Status CheckQrnn(const std::string& path, const v1::QrnnConfig& qrnn) {
  const int64_t layers = qrnn.has_num_layers() ? qrnn.num_layers() : 1;
  RETURN_IF_ERROR(CheckInteger(path + ".num_layers", layers, 1, kMaxLayers));
  RETURN_IF_ERROR(CheckDropout(path + ".dropout", qrnn.dropout()));
  RETURN_IF_ERROR(CheckQrnnOptions(path, qrnn, qrnn.bidirectional()));
  bool block_size_used = qrnn.layers().empty();
  for (int i = 0; i < qrnn.layers_size(); ++i) {
    const std::string layer_path = absl::StrCat(path, ".layers[", i, "]");
    const v1::QrnnLayerConfig& layer = qrnn.layers(i);
    RETURN_IF_ERROR(CheckInteger(layer_path + ".hidden_size",
                                 layer.hidden_size(), 0, kMaxSize));
    RETURN_IF_ERROR(CheckQrnnOptions(layer_path, layer, qrnn.bidirectional()));
    block_size_used |= layer.hidden_size() == 0;
  }
  if (!block_size_used && qrnn.hidden_size() == 0) return absl::OkStatus();
  return CheckInteger(path + ".hidden_size", qrnn.hidden_size(), 1, kMaxSize);
}

absl::Status CheckBlocks(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckInteger("blocks: their number", config.blocks_size(), 1,
                               kMaxLayers));
  std::set<std::string> names;
  for (int b = 0; b < config.blocks_size(); ++b) {
    const v1::Block& block = config.blocks(b);
    const std::string path = absl::StrCat("blocks[", b, "]");
    RETURN_IF_ERROR(CheckName(path + ".name", block.name()));
    if (!names.insert(BlockName(block)).second) {
      return Invalid(path + ".name", absl::StrCat("'", BlockName(block), "'"),
                     "distinct: an earlier block has it");
    }
    switch (block.cell_case()) {
      case v1::Block::kSru:
        RETURN_IF_ERROR(CheckSru(path + ".sru", block.sru()));
        break;
      case v1::Block::kQrnn:
        RETURN_IF_ERROR(CheckQrnn(path + ".qrnn", block.qrnn()));
        break;
      case v1::Block::CELL_NOT_SET:
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": neither sru nor qrnn is set"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const v1::ModelConfig& config) {
  const v1::Output& output = config.output();
  RETURN_IF_ERROR(CheckInteger("output.pooling", output.pooling(), 0,
                               v1::Output::POOLING_MAX));
  RETURN_IF_ERROR(CheckDropout("output.dropout", output.dropout()));
  if (!output.has_linear()) {
    if (output.dropout() == 0) return absl::OkStatus();
    return Invalid("output.dropout", output.dropout(),
                   "0, which a model without output.linear requires");
  }
  RETURN_IF_ERROR(CheckInteger("output.linear.size", output.linear().size(), 1,
                               kMaxVocabulary));
  if (!output.linear().tied()) return absl::OkStatus();
  if (!config.input().has_token_embedding()) {
    return absl::InvalidArgumentError(
        "output.linear.tied: there is no input.token_embedding to share");
  }
  const int32_t vocabulary = config.input().token_embedding().vocabulary_size();
  if (output.linear().size() == vocabulary) return absl::OkStatus();
  return Invalid(
      "output.linear.size", output.linear().size(),
      absl::StrCat(vocabulary, ", the vocabulary_size of the tied embedding"));
}

absl::Status CheckLoss(const v1::ModelConfig& config) {
  const v1::Loss& loss = config.loss();
  RETURN_IF_ERROR(
      CheckInteger("loss.kind", loss.kind(), 0, v1::Loss::MEAN_SQUARED_ERROR));
  if (loss.kind() == v1::Loss::CROSS_ENTROPY) {
    if (config.output().has_linear()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "loss.kind: CROSS_ENTROPY needs output.linear, which gives the logits");
  }
  if (!loss.has_ignore_index()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "loss.ignore_index: only CROSS_ENTROPY has one");
}

}  // namespace

absl::StatusOr<v1::ModelConfig> ParseModelConfig(absl::string_view textproto) {
  if (textproto.size() > kMaxConfigBytes) {
    return Invalid("model config", absl::StrCat(textproto.size(), " bytes"),
                   absl::StrCat("within ", kMaxConfigBytes, " bytes"));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  v1::ModelConfig config;
  if (!parser.ParseFromString(std::string(textproto), &config)) {
    return absl::InvalidArgumentError(
        absl::StrCat("model config: ", error.message()));
  }
  return config;
}

absl::Status CheckFields(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckKnown(config, ""));
  RETURN_IF_ERROR(CheckInput(config.input()));
  RETURN_IF_ERROR(CheckBlocks(config));
  RETURN_IF_ERROR(CheckOutput(config));
  return CheckLoss(config);
}

std::string BlockName(const v1::Block& block) {
  return block.name().empty() ? "rnn" : block.name();
}

}  // namespace recurve
