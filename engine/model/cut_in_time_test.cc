// A model that is cut in time gives the bits of the uncut pass, however its
// sequences are cut, whatever they are batched with and whichever device has
// their next part; so do the carries. At every precision, which makes other
// bits.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/model/executor.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/test_models.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/precision.h"

namespace recurve {
namespace {

using Floats = std::vector<float>;

// By bits: halves of doubles may look like NaN.
bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

Floats RowsOf(const Floats& matrix, int64_t cols, int64_t first,
              int64_t count) {
  const auto begin = matrix.begin() + first * cols;
  return Floats(begin, begin + count * cols);
}

std::string WithPooling(const std::string& model, const std::string& pooling) {
  const std::string words = absl::StrCat("output { pooling: ", pooling);
  return absl::StrContains(model, "output {")
             ? absl::StrReplaceAll(model, {{"output {", words}})
             : absl::StrCat(model, " ", words, " }");
}

// Every layout that is cut, with every pooling, with and without save_prev_x.
std::vector<std::string> SmallModels() {
  std::vector<std::string> models;
  for (const std::string& model : ModelsOfEveryLayout()) {
    if (absl::StrContains(model, "bidirectional")) continue;
    for (const char* pooling :
         {"POOLING_NONE", "POOLING_LAST", "POOLING_MEAN", "POOLING_MAX"}) {
      models.push_back(WithPooling(model, pooling));
      if (!absl::StrContains(model, "window: 2")) continue;
      models.push_back(absl::StrReplaceAll(
          models.back(), {{"window: 2", "window: 2 save_prev_x: true"}}));
    }
  }
  return models;
}

// Beyond the blocks of channels and of rows that kernels work in.
std::vector<std::string> WideModels() {
  const std::string tokens =
      "input { token_embedding { vocabulary_size: 90 embedding_size: 72 } } ";
  const std::string features = "input { features { size: 40 } } ";
  return {tokens +
              "blocks { sru { hidden_size: 72 layer_norm: true } } "
              "output { linear { size: 90 tied: true } }",
          features +
              "blocks { sru { hidden_size: 70 projection_size: 20 } } "
              "output { pooling: POOLING_MEAN }",
          features +
              "blocks { qrnn { hidden_size: 70 window: 2 num_layers: 2 } } "
              "output { pooling: POOLING_MEAN linear { size: 9 } }",
          tokens +
              "blocks { name: 'a' sru { hidden_size: 65 } } "
              "blocks { name: 'b' qrnn { hidden_size: 67 window: 2 "
              "save_prev_x: true } } output { pooling: POOLING_MAX }"};
}

struct Result {
  Floats output;  // of all rows so far; one row where the model pools
  Floats carry;
};

// A sequence, which is two calls of the model, and how far it has come.
struct Sequence {
  SequenceBatch batch;
  int64_t second_call = 0;  // its first row
  int64_t done = 0;
  Result result;
};

SequenceBatch Part(const Model& model, const SequenceBatch& batch,
                   int64_t first, int64_t count) {
  SequenceBatch part;
  part.cu_seqlens = {0, count};
  if (model.takes_tokens()) {
    part.tokens.assign(batch.tokens.begin() + first,
                       batch.tokens.begin() + first + count);
  } else {
    part.features = RowsOf(batch.features, model.feature_size(), first, count);
  }
  return part;
}

void Append(const SequenceBatch& part, SequenceBatch& batch) {
  batch.cu_seqlens.push_back(batch.num_rows() + part.num_rows());
  batch.tokens.insert(batch.tokens.end(), part.tokens.begin(),
                      part.tokens.end());
  batch.features.insert(batch.features.end(), part.features.begin(),
                        part.features.end());
}

// On a device: a pass over a batch from carries [B, carry_size].
class Device {
 public:
  Device(const std::string& model, int threads, Precision precision)
      : e_(model, CreateCpuBackend(threads), ParameterUse::kFixed, precision) {}

  const Model& model() const { return e_.model(); }

  // As the host gives them.
  Result Run(const SequenceBatch& batch, const Floats& carries) {
    ForwardArgs args;
    args.batch = &batch;
    args.state = carries;
    return Read(e_.Forward(args));
  }

  // As rows, drawn by chance, of a pool on the device.
  Result RunFromPool(const SequenceBatch& batch, const Floats& carries,
                     std::mt19937& random) {
    const int64_t b = batch.num_sequences(), size = model().carry_size();
    std::vector<int32_t> slots(2 * b), rows(b);
    for (int32_t i = 0; i < 2 * b; ++i) slots[i] = i;
    std::shuffle(slots.begin(), slots.end(), random);
    for (int32_t i = 0; i < b; ++i) rows[i] = i;
    Floats pool(2 * b * size, 99.0f);
    for (int64_t i = 0; i < b; ++i) {
      std::copy_n(carries.begin() + i * size, size,
                  pool.begin() + slots[i] * size);
    }
    // On the CPU host memory is the device's.
    const Matrix<float> on_device = {pool.data(), 2 * b, size};
    ForwardArgs args;
    args.batch = &batch;
    args.place_state = [&](Matrix<float> state) {
      return e_.backend().CopyRows(
          {on_device, slots.data(), state, rows.data(), b});
    };
    const ForwardResult result = e_.Forward(args);
    EXPECT_TRUE(
        e_.backend()
            .CopyRows({result.state, rows.data(), on_device, slots.data(), b})
            .ok());
    Result read = Read(result);
    for (int64_t i = 0; i < b; ++i) {
      std::copy_n(on_device.row(slots[i]), size, read.carry.begin() + i * size);
    }
    return read;
  }

 private:
  Result Read(const ForwardResult& result) {
    return {e_.ToHost(result.output), e_.ToHost(result.state)};
  }

  TestExecutor e_;
};

// The first `end` rows of a sequence, alone and each call in one pass.
Result Uncut(Device& device, const Sequence& sequence, int64_t end) {
  const Model& model = device.model();
  const int64_t first = std::min(end, sequence.second_call);
  Result result = device.Run(Part(model, sequence.batch, 0, first),
                             Floats(model.carry_size()));
  if (end <= sequence.second_call) return result;
  model.BeginCall(absl::MakeSpan(result.carry), 1);
  Result second =
      device.Run(Part(model, sequence.batch, first, end - first), result.carry);
  if (!model.pools()) {
    second.output.insert(second.output.begin(), result.output.begin(),
                         result.output.end());
  }
  return second;
}

// One pass over parts, of these lengths, of some of the sequences.
void RunParts(Device& device, const std::vector<Sequence*>& sequences,
              const std::vector<int64_t>& lengths, std::mt19937& random) {
  const Model& model = device.model();
  SequenceBatch batch;
  Floats carries;
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = *sequences[i];
    if (s.done == s.second_call) {
      model.BeginCall(absl::MakeSpan(s.result.carry), 1);
    }
    Append(Part(model, s.batch, s.done, lengths[i]), batch);
    carries.insert(carries.end(), s.result.carry.begin(), s.result.carry.end());
  }
  const Result result = random() % 2 == 0
                            ? device.Run(batch, carries)
                            : device.RunFromPool(batch, carries, random);
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = *sequences[i];
    s.result.carry = RowsOf(result.carry, model.carry_size(), i, 1);
    // A part without rows has no last row either.
    const bool last = model.pools() && model.pool_kind() == PoolKind::kLast;
    if (last && lengths[i] == 0) continue;
    if (model.pools()) {
      s.result.output = RowsOf(result.output, model.output_size(), i, 1);
    } else {
      const Floats rows = RowsOf(result.output, model.output_size(),
                                 batch.cu_seqlens[i], lengths[i]);
      s.result.output.insert(s.result.output.end(), rows.begin(), rows.end());
    }
    s.done += lengths[i];
  }
}

// How many rows of a sequence come next: one, a few, all of its call, or none,
// but where that would begin the second call.
int64_t NextLength(const Sequence& s, std::mt19937& random) {
  const int64_t end =
      s.done < s.second_call ? s.second_call : s.batch.num_rows();
  const int64_t left = end - s.done;
  switch (random() % 4) {
    case 0:
      return random() % 3 == 0 && s.done != s.second_call ? 0 : 1;
    case 1:
      return left;
    default:
      return 1 + random() % left;
  }
}

std::vector<Sequence> RandomSequences(const Model& model, int count,
                                      int64_t max_length,
                                      std::mt19937& random) {
  std::vector<Sequence> sequences(count);
  for (Sequence& s : sequences) {
    const int64_t length = 2 + random() % (max_length - 1);
    s.batch = RandomBatch(model, {length}, random());
    s.second_call = 1 + random() % (length - 1);
    s.result.carry.resize(model.carry_size());
  }
  return sequences;
}

void Check(const std::string& text, int64_t max_length, uint32_t seed,
           Precision precision = Precision::kFloat32) {
  SCOPED_TRACE(text);
  std::mt19937 random(seed);
  Device alone(text, 1, precision);
  std::vector<std::unique_ptr<Device>> devices;
  for (const int threads : {1, 3, 2}) {
    devices.push_back(std::make_unique<Device>(text, threads, precision));
  }
  const Model& model = alone.model();
  ASSERT_TRUE(model.CutsInTime());
  std::vector<Sequence> all = RandomSequences(model, 5, max_length, random);
  std::vector<Sequence*> left;
  for (Sequence& s : all) left.push_back(&s);
  while (!left.empty()) {
    std::shuffle(left.begin(), left.end(), random);
    const std::vector<Sequence*> company(
        left.begin(), left.begin() + 1 + random() % left.size());
    std::vector<int64_t> lengths;
    for (const Sequence* s : company) {
      lengths.push_back(NextLength(*s, random));
    }
    RunParts(*devices[random() % devices.size()], company, lengths, random);
    for (const Sequence* s : company) {
      if (s->done == 0) continue;
      const Result uncut = Uncut(alone, *s, s->done);
      ASSERT_TRUE(SameBits(s->result.output, uncut.output)) << s->done;
      ASSERT_TRUE(SameBits(s->result.carry, uncut.carry)) << s->done;
    }
    const auto ended = [](const Sequence* s) {
      return s->done == s->batch.num_rows();
    };
    left.erase(std::remove_if(left.begin(), left.end(), ended), left.end());
  }
}

TEST(CutInTime, GivesTheBitsOfTheUncutPassForEveryLayout) {
  uint32_t seed = 0;
  for (const std::string& text : SmallModels()) {
    for (int run = 0; run < 4; ++run) {
      ASSERT_NO_FATAL_FAILURE(Check(text, 24, ++seed));
    }
  }
}

TEST(CutInTime, GivesTheBitsOfTheUncutPassForWideModels) {
  for (const std::string& text : WideModels()) {
    for (const uint32_t seed : {1, 2, 3}) {
      ASSERT_NO_FATAL_FAILURE(Check(text, 1300, seed));
    }
  }
}

TEST(CutInTime, GivesTheBitsOfTheUncutPassAtLowerPrecisions) {
  uint32_t seed = 0;
  for (const Precision precision : {Precision::kBfloat16, Precision::kInt8}) {
    for (const std::string& text : SmallModels()) {
      ASSERT_NO_FATAL_FAILURE(Check(text, 24, ++seed, precision));
    }
    for (const std::string& text : WideModels()) {
      ASSERT_NO_FATAL_FAILURE(Check(text, 600, ++seed, precision));
    }
  }
}

}  // namespace
}  // namespace recurve
