// The places of a model that a message can name, in the order in which a
// forward pass goes through them; a backward pass goes the other way.
#ifndef RECURVE_ENGINE_MODEL_PLACES_H_
#define RECURVE_ENGINE_MODEL_PLACES_H_

#include <cstdint>
#include <string>

#include "engine/model/model.h"

namespace recurve {

// Numbers of places; some numbers stand for what a model does not have. It
// refers to the model.
class Places {
 public:
  explicit Places(const Model& model) : model_(model) {}

  int input() const { return 0; }
  // The input_to_hidden before layer l of the whole stack, and the layer.
  int before_layer(int l) const { return 1 + 2 * l; }
  int layer(int l) const { return 2 + 2 * l; }
  int pooling() const { return before_layer(num_layers()); }
  int output() const { return pooling() + 1; }
  int loss() const { return pooling() + 2; }

  // "input embedding" or "input features", "blocks[0].input_to_hidden",
  // "blocks[0].layer 1", "pooling", "output", "loss".
  std::string Name(int place) const;

  // Where a parameter of the model is used first; a tied embedding: the input.
  int Of(const Parameter& parameter) const;

 private:
  int num_layers() const { return static_cast<int>(model_.layers().size()); }

  const Model& model_;
};

// A sequence of a batch whose numbers stop being finite.
struct NotFiniteSequence {
  int64_t sequence = 0;  // in the batch
  int place = 0;         // the first, in forward order
  bool loss = false;     // its loss is not finite; else only its state after
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_PLACES_H_
