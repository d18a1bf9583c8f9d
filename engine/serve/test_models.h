// Small models for tests of serving, as textproto: one of each kind that
// carries something else from chunk to chunk. All but kQrnn take 17 tokens.
#ifndef RECURVE_ENGINE_SERVE_TEST_MODELS_H_
#define RECURVE_ENGINE_SERVE_TEST_MODELS_H_

namespace recurve {

inline constexpr char kSru[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 num_layers: 2 layer_norm: true } }
  output { linear { size: 7 } }
  loss { kind: CROSS_ENTROPY })";

// Numbers in, numbers out.
inline constexpr char kQrnn[] = R"(
  input { features { size: 4 } }
  blocks { qrnn { hidden_size: 10 num_layers: 2 window: 2 zoneout: 0.25
                  save_prev_x: true } }
  output { linear { size: 3 } }
  loss { kind: MEAN_SQUARED_ERROR })";

// The second layer forgets its last input row between calls, which a chunk must
// not.
inline constexpr char kForgetful[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { qrnn { hidden_size: 10
                  layers { window: 2 save_prev_x: true } layers { window: 2 } } }
  output { linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

inline constexpr char kMean[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { pooling: POOLING_MEAN linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

inline constexpr char kMax[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { qrnn { hidden_size: 12 window: 2 } }
  output { pooling: POOLING_MAX linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

inline constexpr char kLast[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { pooling: POOLING_LAST linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

// Takes no sequence in parts.
inline constexpr char kBidirectional[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 6 bidirectional: true } }
  output { linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

inline constexpr char kBidirectionalMean[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 6 bidirectional: true } }
  output { pooling: POOLING_MEAN linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_TEST_MODELS_H_
