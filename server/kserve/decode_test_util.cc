#include "server/kserve/decode_test_util.h"

#include <cstdlib>

#include "absl/status/statusor.h"
#include "google/protobuf/text_format.h"

namespace recurve::server::kserve {

std::shared_ptr<const Model> MakeModel(const std::string& textproto) {
  v1::ModelConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(textproto, &config)) {
    std::abort();
  }
  return Model::Create(config).value();
}

std::shared_ptr<const Model> TokenModel() {
  return MakeModel(R"pb(
    input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
    blocks { sru { hidden_size: 6 num_layers: 2 } }
    output { linear { size: 5 } }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

std::shared_ptr<const Model> FeatureModel() {
  return MakeModel(R"pb(
    input { features { size: 2 } }
    blocks { qrnn { hidden_size: 4 } }
    output { linear { size: 3 } }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

std::shared_ptr<const Model> PoolingModel() {
  return MakeModel(R"pb(
    input { features { size: 2 } }
    blocks { sru { hidden_size: 4 } }
    output {
      pooling: POOLING_MEAN
      linear { size: 3 }
    }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

void AddInput(inference::ModelInferRequest& request, const std::string& name,
              const std::string& datatype, const std::vector<int64_t>& shape,
              const std::string& raw) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.mutable_shape()->Add(shape.begin(), shape.end());
  request.add_raw_input_contents(raw);
}

}  // namespace recurve::server::kserve
