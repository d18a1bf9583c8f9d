#include "tests/golden/case_config.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "tests/golden/json_options.h"

namespace recurve::golden {
namespace {

using nlohmann::json;

absl::Status NotUnderstood(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is not understood"));
}

absl::Status CheckMetadataKeys(const MetadataMap& metadata) {
  static const auto* const kKnown =
      new std::set<std::string>{"case",
                                "library",
                                "torch",
                                "config",
                                "grad_source",
                                "err_output_f32_vs_f64",
                                "err_grad_f32_vs_f64"};
  for (const auto& [key, value] : metadata) {
    if (!kKnown->contains(key)) return NotUnderstood("metadata " + key);
  }
  for (const char* key : {"library", "config"}) {
    if (metadata.contains(key)) continue;
    return absl::InvalidArgumentError(absl::StrCat("metadata: no ", key));
  }
  return absl::OkStatus();
}

absl::Status SetLibrary(const std::string& library, CaseConfig& config) {
  if (!config.is_sru) {
    return absl::StartsWith(library, "pytorch-qrnn")
               ? absl::OkStatus()
               : NotUnderstood("library '" + library + "'");
  }
  v1::SruConfig& sru = *config.model.mutable_blocks(0)->mutable_sru();
  if (absl::StartsWith(library, "sru 2.")) {
    sru.set_library(v1::SruConfig::SRU_2);
  } else if (absl::StartsWith(library, "sru 3.0")) {
    sru.set_library(v1::SruConfig::SRU_3_DEV);
  } else {
    return NotUnderstood("library '" + library + "'");
  }
  return absl::OkStatus();
}

absl::Status SetProjection(const json& value, v1::SruConfig& sru) {
  for (const json& size : value.is_array() ? value : json::array({value})) {
    if (!size.is_number_integer()) {
      return absl::InvalidArgumentError("projection_size is not integers");
    }
    sru.add_projection_size(size.get<int32_t>());
  }
  return absl::OkStatus();
}

absl::Status SetCustomTransform(const json& value, v1::SruConfig& sru) {
  if (value.is_null()) return absl::OkStatus();
  if (value == "linear") {
    sru.set_custom_m(v1::SruConfig::CUSTOM_TRANSFORM_LINEAR);
  } else if (value == "uv") {
    sru.set_custom_m(v1::SruConfig::CUSTOM_TRANSFORM_UV);
  } else {
    return NotUnderstood("custom_m " + value.dump());
  }
  sru.clear_projection_size();  // the library ignores it then
  return absl::OkStatus();
}

absl::Status SetSru(JsonOptions& kwargs, CaseConfig& config) {
  v1::SruConfig& sru = *config.model.mutable_blocks(0)->mutable_sru();
  sru.set_hidden_size(kwargs.TakeInteger("hidden_size", 0));
  sru.set_num_layers(kwargs.TakeInteger("num_layers", 2));
  sru.set_dropout(kwargs.TakeNumber("dropout", 0));
  sru.set_rnn_dropout(kwargs.TakeNumber("rnn_dropout", 0));
  sru.set_bidirectional(kwargs.TakeBool("bidirectional", false));
  RETURN_IF_ERROR(SetProjection(kwargs.Take("projection_size", 0), sru));
  sru.set_use_tanh(kwargs.TakeBool("use_tanh", false));
  sru.set_layer_norm(kwargs.TakeBool("layer_norm", false));
  sru.set_normalize_after(kwargs.TakeBool("normalize_after", false));
  sru.set_highway_bias(kwargs.TakeNumber("highway_bias", 0));
  sru.set_has_skip_term(kwargs.TakeBool("has_skip_term", true));
  sru.set_rescale(kwargs.TakeBool("rescale", false));
  sru.set_v1(kwargs.TakeBool("v1", false));
  config.compatible_states = kwargs.TakeBool("nn_rnn_compatible_return", false);
  sru.set_nn_rnn_compatible_return(config.compatible_states);
  sru.set_proj_input_to_hidden_first(
      kwargs.TakeBool("proj_input_to_hidden_first", false));
  sru.set_amp_recurrence_fp16(kwargs.TakeBool("amp_recurrence_fp16", false));
  if (kwargs.Has("weight_c_init")) {
    sru.set_weight_c_init(kwargs.TakeNumber("weight_c_init", 0));
  }
  kwargs.Take("weight_c_init");
  return SetCustomTransform(kwargs.Take("custom_m"), sru);
}

// Options of a QRNN layer, wherever they are given.
template <typename Config>
void SetQrnnOptions(JsonOptions& options, Config& config) {
  config.set_window(options.TakeInteger("window", 1));
  config.set_output_gate(options.TakeBool("output_gate", true));
  config.set_zoneout(options.TakeNumber("zoneout", 0));
  config.set_save_prev_x(options.TakeBool("save_prev_x", false));
  options.TakeBool("use_cuda", true);
}

absl::Status SetQrnnLayers(const json& layers, CaseConfig& config) {
  v1::QrnnConfig& qrnn = *config.model.mutable_blocks(0)->mutable_qrnn();
  int64_t input_size = config.input_size;
  for (const json& element : layers) {
    JsonOptions options(absl::StrCat("layers[", qrnn.layers_size(), "]"),
                        element);
    v1::QrnnLayerConfig& layer = *qrnn.add_layers();
    const int64_t given = options.TakeInteger("input_size", input_size);
    if (given != input_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a layer of input_size ", given, " after rows of ", input_size));
    }
    const int64_t hidden = options.TakeInteger("hidden_size", 0);
    layer.set_hidden_size(hidden != 0 ? hidden : input_size);
    SetQrnnOptions(options, layer);
    RETURN_IF_ERROR(options.Done());
    input_size = layer.hidden_size();
  }
  return absl::OkStatus();
}

absl::Status SetQrnn(JsonOptions& kwargs, CaseConfig& config) {
  v1::QrnnConfig& qrnn = *config.model.mutable_blocks(0)->mutable_qrnn();
  const int64_t hidden = kwargs.TakeInteger("hidden_size", 0);
  qrnn.set_hidden_size(hidden != 0 ? hidden : config.input_size);
  qrnn.set_num_layers(kwargs.TakeInteger("num_layers", 1));
  qrnn.set_dropout(kwargs.TakeNumber("dropout", 0));
  const bool usual = kwargs.TakeBool("bias", true) &&
                     !kwargs.TakeBool("batch_first", false) &&
                     !kwargs.TakeBool("bidirectional", false);
  if (!usual) return NotUnderstood("bias, batch_first or bidirectional");
  SetQrnnOptions(kwargs, qrnn);
  return SetQrnnLayers(kwargs.Take("layers", json::array()), config);
}

absl::Status SetLengths(const json& value, CaseConfig& config) {
  for (const json& length : value.is_array() ? value : json::array({value})) {
    if (!length.is_number_integer() || length.get<int64_t>() < 1) {
      return NotUnderstood("L " + value.dump());
    }
    config.lengths.push_back(length.get<int64_t>());
  }
  const size_t most = config.is_sru ? 1 : 2;
  if (!config.lengths.empty() && config.lengths.size() <= most) {
    return absl::OkStatus();
  }
  return NotUnderstood("L " + value.dump());
}

absl::Status SetCall(JsonOptions& options, CaseConfig& config) {
  config.training = options.TakeBool("train_mode", false);
  config.batch_size = options.TakeInteger("B", 0);
  RETURN_IF_ERROR(SetLengths(options.Take("L"), config));
  options.TakeInteger("seed", 0);
  if (config.is_sru) {
    config.has_mask = options.Has("mask");  // its kind is the tensor's matter
    options.Take("mask");
    config.has_state = options.TakeBool("has_c0", false);
    options.Take("init");
    return SetCustomTransform(options.Take("custom_m"),
                              *config.model.mutable_blocks(0)->mutable_sru());
  }
  config.has_state = options.TakeBool("has_hidden", false);
  config.carry_hidden = options.TakeBool("carry_hidden", true);
  config.reset_between = options.TakeBool("reset_between", false);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CaseConfig> ReadCaseConfig(const MetadataMap& metadata) {
  RETURN_IF_ERROR(CheckMetadataKeys(metadata));
  JsonOptions options("config",
                      json::parse(metadata.find("config")->second, nullptr,
                                  /*allow_exceptions=*/false));
  const std::string module = options.TakeString("module");
  CaseConfig config;
  config.is_srupp = module == "SRUpp";
  if (config.is_srupp) return config;
  config.is_sru = module == "SRU";
  if (!config.is_sru && module != "QRNN") {
    return NotUnderstood("module '" + module + "'");
  }
  JsonOptions kwargs("kwargs", options.Take("kwargs"));
  config.input_size = kwargs.TakeInteger("input_size", 0);
  config.model.mutable_input()->mutable_features()->set_size(config.input_size);
  config.model.add_blocks();
  RETURN_IF_ERROR(config.is_sru ? SetSru(kwargs, config)
                                : SetQrnn(kwargs, config));
  RETURN_IF_ERROR(kwargs.Done());
  RETURN_IF_ERROR(SetLibrary(metadata.find("library")->second, config));
  RETURN_IF_ERROR(SetCall(options, config));
  RETURN_IF_ERROR(options.Done());
  return config;
}

}  // namespace recurve::golden
