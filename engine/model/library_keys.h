// How the tensors of the libraries' checkpoints (SEMANTICS 1, 2.2, 6.1) map to
// our parameters: the one description that import, export and the comparison of
// gradients all use.
#ifndef RECURVE_ENGINE_MODEL_LIBRARY_KEYS_H_
#define RECURVE_ENGINE_MODEL_LIBRARY_KEYS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model.h"

namespace recurve {

// Which keys a block's tensors have.
enum class KeyStyle {
  kSru2,              // sru 2.1.8 to 2.7: rnn_lst.0.weight
  kSru3Dev,           // sru 3.0-dev: rnn_lst.0.transform_module.weight
  kQrnn,              // torchqrnn.QRNN: layers.0.linear.weight
  kQrnnWeightDrop,    // layers.0.linear.module.weight_raw
  kLayers,            // a list of QRNNLayer: 0.linear.weight
  kLayersWeightDrop,  // as awd-lstm-lm: 0.linear.module.weight_raw
};

// A module's names in a checkpoint. Prefixes end in a dot unless empty.
struct BlockNames {
  std::string prefix;
  KeyStyle style = KeyStyle::kSru2;
};
struct LibraryNames {
  std::string embedding;  // `encoder.`: encoder.weight
  std::vector<BlockNames> blocks;
  std::string output;  // `decoder.`: decoder.weight, decoder.bias
  // Tied models: whether the checkpoint repeats the embedding as output weight.
  bool tied_weight_repeated = true;
};

// `embedding.`, each block's name or `rnn.`, `output.`, and the style of each
// block's library.
LibraryNames DefaultNames(const Model& model);

// Walks four axes over both sides: element (a, b, c, d) of the walk is element
// sum(index * library_stride) of the library's tensor and element
// our_offset + sum(index * our_stride) of our parameter.
struct ElementMap {
  std::array<int64_t, 4> size = {1, 1, 1, 1};
  std::array<int64_t, 4> library_stride = {};
  std::array<int64_t, 4> our_stride = {};
  int64_t our_offset = 0;
};

// One tensor of a checkpoint.
struct LibraryTensor {
  std::string key;
  std::vector<int64_t> shape;
  const Parameter* parameter = nullptr;  // owned by the model
  ElementMap map;

  int64_t count() const;
};

// Every tensor of one block, its prefix included.
std::vector<LibraryTensor> BlockTensors(const Model& model, int64_t block,
                                        const BlockNames& names);
// Every tensor of the model: a tied output weight only if it is repeated.
std::vector<LibraryTensor> ModelTensors(const Model& model,
                                        const LibraryNames& names);

// `library` has tensor.count() floats, `buffer` the model's whole buffer.
void ToLibrary(const LibraryTensor& tensor, const float* buffer,
               float* library);
void FromLibrary(const LibraryTensor& tensor, const float* library,
                 float* buffer);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LIBRARY_KEYS_H_
