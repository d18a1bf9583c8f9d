#include "engine/model/library_names.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/model/config.h"
#include "kernels/status.h"

namespace recurve {
namespace {

using Parts = std::vector<absl::string_view>;

bool IsNumber(absl::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
}

// The first `count` parts as a prefix, dot included.
std::string Prefix(const Parts& parts, size_t count) {
  std::string prefix;
  for (size_t i = 0; i < count; ++i) absl::StrAppend(&prefix, parts[i], ".");
  return prefix;
}

// --- Blocks ---

// Where rnn_lst stands, followed by a layer's number and something of it.
std::optional<size_t> SruLayerList(const Parts& parts) {
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] == "rnn_lst" && IsNumber(parts[i + 1])) return i;
  }
  return std::nullopt;
}

std::optional<BlockNames> SruBlockOf(absl::string_view key) {
  const Parts parts = absl::StrSplit(key, '.');
  const std::optional<size_t> list = SruLayerList(parts);
  if (!list) return std::nullopt;
  const bool is_3_dev = parts[*list + 2] == "transform_module";
  return BlockNames{Prefix(parts, *list),
                    is_3_dev ? KeyStyle::kSru3Dev : KeyStyle::kSru2};
}

// A layer's number followed by `linear`, with or without `layers` before.
std::optional<BlockNames> QrnnBlockOf(absl::string_view key) {
  const Parts parts = absl::StrSplit(key, '.');
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (!IsNumber(parts[i]) || parts[i + 1] != "linear") continue;
    const bool drop = parts[i + 2] == "module";
    if (i > 0 && parts[i - 1] == "layers") {
      return BlockNames{Prefix(parts, i - 1),
                        drop ? KeyStyle::kQrnnWeightDrop : KeyStyle::kQrnn};
    }
    return BlockNames{Prefix(parts, i),
                      drop ? KeyStyle::kLayersWeightDrop : KeyStyle::kLayers};
  }
  return std::nullopt;
}

std::optional<BlockNames> BlockOf(absl::string_view key, bool sru) {
  return sru ? SruBlockOf(key) : QrnnBlockOf(key);
}

// The modules that look like blocks of a kind, by prefix.
using Candidates = std::map<std::string, KeyStyle>;

Candidates FindCandidates(const TensorMap& tensors, bool sru) {
  Candidates candidates;
  for (const auto& [key, tensor] : tensors) {
    const std::optional<BlockNames> block = BlockOf(key, sru);
    if (!block) continue;
    // Most of a layer's keys are the same in both versions of sru.
    KeyStyle& style =
        candidates.try_emplace(block->prefix, block->style).first->second;
    if (block->style == KeyStyle::kSru3Dev) style = block->style;
  }
  return candidates;
}

bool HasName(absl::string_view prefix, absl::string_view name) {
  return prefix == absl::StrCat(name, ".") ||
         absl::EndsWith(prefix, absl::StrCat(".", name, "."));
}

// Takes out of `candidates` the one that a block is by its name, if any.
absl::StatusOr<std::optional<BlockNames>> TakeByName(const std::string& name,
                                                     Candidates& candidates) {
  std::vector<std::string> found;
  for (const auto& [prefix, style] : candidates) {
    if (HasName(prefix, name)) found.push_back(prefix);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() > 1 && found[0] != name + ".") {
    return absl::InvalidArgumentError(absl::StrCat(
        "several modules of the checkpoint could be block ", QuotedName(name),
        ": ", absl::StrJoin(found, ", "), "; give the block the whole name"));
  }
  const auto taken = candidates.extract(found[0]);
  return BlockNames{taken.key(), taken.mapped()};
}

std::string PrefixList(const Candidates& candidates) {
  std::vector<std::string> prefixes;
  for (const auto& [prefix, style] : candidates) {
    prefixes.push_back(QuotedName(prefix));
  }
  return absl::StrJoin(prefixes, ", ");
}

// Finds the blocks of one kind: a single one under any name, several by name,
// the last of several by being the one that is left.
absl::Status FindBlocksOfKind(const Model& model, const TensorMap& tensors,
                              bool sru, LibraryNames& names) {
  Candidates candidates = FindCandidates(tensors, sru);
  std::vector<int> unnamed;
  for (int b = 0; b < model.config().blocks_size(); ++b) {
    const v1::Block& block = model.config().blocks(b);
    if (block.has_sru() != sru) continue;
    ASSIGN_OR_RETURN(std::optional<BlockNames> found,
                     TakeByName(BlockName(block), candidates));
    if (found) {
      names.blocks[b] = *found;
    } else {
      unnamed.push_back(b);
    }
  }
  if (unnamed.empty() || candidates.empty()) return absl::OkStatus();
  if (unnamed.size() == 1 && candidates.size() == 1) {
    const auto& [prefix, style] = *candidates.begin();
    names.blocks[unnamed[0]] = {prefix, style};
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "block ", QuotedName(BlockName(model.config().blocks(unnamed[0]))),
      " is not found by its name in the checkpoint; modules that look like ",
      sru ? "sru" : "qrnn", " blocks: ", PrefixList(candidates)));
}

// --- What cannot be run ---

absl::Status Unsupported(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(QuotedName(key), " belongs to ", what));
}

// SRU++ has transform modules with parts other than one or two matrices.
bool IsSruPlusPlus(const Parts& parts, size_t list) {
  if (parts[list + 2] != "transform_module" || list + 3 >= parts.size()) {
    return false;
  }
  const absl::string_view part = parts[list + 3];
  return absl::StartsWith(part, "linear") || part == "alpha" ||
         part == "layer_norm";
}

absl::Status CheckSupported(absl::string_view key) {
  const Parts parts = absl::StrSplit(key, '.');
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] == "ln_lst" && IsNumber(parts[i + 1])) {
      return Unsupported(key,
                         "the layer norm of sru up to 2.1.7, whose formula "
                         "(unbiased variance) is not supported; retrain with "
                         "sru 2.1.8 or later");
    }
  }
  const std::optional<size_t> list = SruLayerList(parts);
  if (!list) return absl::OkStatus();
  if (parts[*list + 2] == "gain") {
    return Unsupported(key,
                       "the weight norm of sru up to 2.1.7, which is not "
                       "supported; multiply it into the weight");
  }
  if (IsSruPlusPlus(parts, *list)) {
    return Unsupported(key,
                       "an SRU++ model (sru 3.0-dev with attention), which is "
                       "not supported");
  }
  return absl::OkStatus();
}

// --- Embedding and output ---

// What stands beside the blocks: a module with a weight, a bias or both.
struct Module {
  const TensorView* weight = nullptr;
  const TensorView* bias = nullptr;
};
using Modules = std::map<std::string, Module>;

// Keys that stand in one of the found blocks belong to no other part.
bool InBlock(absl::string_view key, const Model& model,
             const LibraryNames& names) {
  for (size_t b = 0; b < names.blocks.size(); ++b) {
    const bool sru = model.config().blocks(static_cast<int>(b)).has_sru();
    const std::string& prefix = names.blocks[b].prefix;
    const std::optional<BlockNames> block = BlockOf(key, sru);
    if (block && block->prefix == prefix) return true;
    if (key == prefix + "input_to_hidden.weight") return true;
  }
  return false;
}

Modules FindModules(const TensorMap& tensors, const Model& model,
                    const LibraryNames& names) {
  Modules modules;
  for (const auto& [key, tensor] : tensors) {
    if (InBlock(key, model, names)) continue;
    const size_t dot = key.rfind('.');
    const size_t begin = dot == std::string::npos ? 0 : dot + 1;
    const std::string prefix = key.substr(0, begin);
    const absl::string_view leaf = absl::string_view(key).substr(begin);
    if (leaf == "weight") modules[prefix].weight = &tensor;
    if (leaf == "bias") modules[prefix].bias = &tensor;
  }
  return modules;
}

enum class Part { kEmbedding, kOutput };

// Which part a module is by its name; the last telling word decides.
std::optional<Part> PartByName(absl::string_view prefix) {
  static constexpr absl::string_view kEmbeddingWords[] = {
      "emb", "encoder", "wte", "word", "token", "lookup"};
  static constexpr absl::string_view kOutputWords[] = {
      "out", "decoder", "head",  "classif", "linear",
      "fc",  "proj",    "logit", "softmax", "predict"};
  const auto has_word = [](absl::string_view text, const auto& words) {
    return std::any_of(std::begin(words), std::end(words),
                       [text](absl::string_view word) {
                         return absl::StrContains(text, word);
                       });
  };
  const std::string lower = absl::AsciiStrToLower(prefix);
  const Parts parts = absl::StrSplit(lower, '.');
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const bool embedding = has_word(*part, kEmbeddingWords);
    const bool output = has_word(*part, kOutputWords);
    if (embedding != output) {
      return embedding ? Part::kEmbedding : Part::kOutput;
    }
  }
  return std::nullopt;
}

// Finds the two parts among the modules.
class PartFinder {
 public:
  PartFinder(const Model& model, Modules modules)
      : model_(model), modules_(std::move(modules)) {
    const auto& output = model.config().output();
    has_output_ = output.has_linear();
    tied_ = output.linear().tied();
    bias_ = model.parameters().Find("output.bias") != nullptr;
  }

  absl::Status Find(const ImportOptions& options, LibraryNames& names) {
    std::vector<std::string> embeddings, outputs;
    if (model_.takes_tokens()) {
      ASSIGN_OR_RETURN(embeddings, Choices(Part::kEmbedding, "embedding_key",
                                           options.embedding_key));
    }
    if (has_output_) {
      ASSIGN_OR_RETURN(
          outputs, Choices(Part::kOutput, "output_key", options.output_key));
    }
    RETURN_IF_ERROR(Choose(embeddings, outputs, names));
    names.tied_weight_repeated = modules_[names.output].weight != nullptr;
    return absl::OkStatus();
  }

 private:
  // 0: not this part, 1: the weight has its shape, 2: the bias fits, too.
  int Fit(Part part, const Module& module) const {
    const bool embedding = part == Part::kEmbedding;
    const std::vector<int64_t> shape = {
        embedding ? model_.vocabulary_size() : model_.output_size(),
        embedding ? WidthOf("embedding.weight") : model_.hidden_channels()};
    const bool wants_bias = !embedding && bias_;
    const bool bias_fits =
        module.bias == nullptr
            ? !wants_bias
            : wants_bias && module.bias->shape ==
                                std::vector<int64_t>{model_.output_size()};
    if (module.weight == nullptr) {
      return !embedding && tied_ && bias_fits ? 2 : 0;
    }
    return module.weight->shape == shape ? 1 + bias_fits : 0;
  }

  int64_t WidthOf(absl::string_view parameter) const {
    return model_.parameters().Find(parameter)->cols;
  }

  // The modules that fit a part best; the one that `key` names, if it does.
  absl::StatusOr<std::vector<std::string>> Choices(
      Part part, absl::string_view option, const std::string& key) const {
    if (!key.empty()) {
      const std::string prefix = absl::EndsWith(key, ".") ? key : key + ".";
      if (modules_.contains(prefix)) return std::vector<std::string>{prefix};
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": the checkpoint has no tensor ",
                       QuotedName(prefix + "weight"), " beside its blocks"));
    }
    std::vector<std::string> choices;
    int best = 1;
    for (const auto& [prefix, module] : modules_) {
      const int fit = Fit(part, module);
      if (fit > best) choices.clear();
      best = std::max(best, fit);
      if (fit == best) choices.push_back(prefix);
    }
    return choices;
  }

  struct Pair {
    std::string embedding, output;
    int score = 0;  // how far the names agree
  };

  static int Score(Part part, const std::string& prefix) {
    const std::optional<Part> named = PartByName(prefix);
    return !named ? 0 : *named == part ? 1 : -1;
  }

  static std::vector<Pair> BestPairs(const std::vector<std::string>& embeddings,
                                     const std::vector<std::string>& outputs) {
    std::vector<Pair> pairs;
    for (const std::string& embedding : embeddings) {
      for (const std::string& output : outputs) {
        if (embedding == output) continue;
        const int score =
            Score(Part::kEmbedding, embedding) + Score(Part::kOutput, output);
        if (!pairs.empty() && score > pairs[0].score) pairs.clear();
        if (pairs.empty() || score == pairs[0].score) {
          pairs.push_back({embedding, output, score});
        }
      }
    }
    return pairs;
  }

  // The modules of `choices` whose name says `part` most clearly.
  static std::vector<std::string> BestNamed(
      Part part, const std::vector<std::string>& choices) {
    std::vector<std::string> best;
    for (const std::string& choice : choices) {
      const int score = Score(part, choice);
      if (!best.empty() && score > Score(part, best[0])) best.clear();
      if (best.empty() || score == Score(part, best[0])) {
        best.push_back(choice);
      }
    }
    return best;
  }

  static absl::Status Ambiguous(absl::string_view part,
                                const std::vector<std::string>& choices) {
    std::vector<std::string> quoted;
    for (const std::string& choice : choices) {
      quoted.push_back(QuotedName(choice + "weight"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "shapes and names leave a choice for the ", part, ": ",
        absl::StrJoin(quoted, ", "), "; give embedding_key or output_key"));
  }

  absl::Status Choose(const std::vector<std::string>& embeddings,
                      const std::vector<std::string>& outputs,
                      LibraryNames& names) {
    const std::vector<Pair> pairs = BestPairs(embeddings, outputs);
    // Where a tied table stands twice, both are the same numbers.
    if (pairs.size() > 1 && !(tied_ && pairs.size() == 2)) {
      return Ambiguous("embedding and the output",
                       BestNamed(Part::kEmbedding, embeddings));
    }
    if (!pairs.empty()) {
      names.embedding = pairs[0].embedding;
      names.output = pairs[0].output;
      return absl::OkStatus();
    }
    return ChooseAlone(embeddings, outputs, names);
  }

  // At most one of the parts is there: the other is not of this model, is
  // missing, or has another shape.
  absl::Status ChooseAlone(std::vector<std::string> embeddings,
                           std::vector<std::string> outputs,
                           LibraryNames& names) {
    if (!embeddings.empty() && !outputs.empty()) {  // one module, fits both
      const bool output =
          !tied_ && PartByName(outputs[0]) == std::optional(Part::kOutput);
      (output ? embeddings : outputs).clear();
    }
    RETURN_IF_ERROR(ChooseOne(Part::kEmbedding, embeddings, names.embedding));
    RETURN_IF_ERROR(ChooseOne(Part::kOutput, outputs, names.output));
    if (model_.takes_tokens() && embeddings.empty()) {
      GuessByName(Part::kEmbedding, names.output, names.embedding);
    }
    if (has_output_ && outputs.empty() && !(tied_ && !bias_)) {
      GuessByName(Part::kOutput, names.embedding, names.output);
    }
    return absl::OkStatus();
  }

  static absl::Status ChooseOne(Part part,
                                const std::vector<std::string>& choices,
                                std::string& name) {
    if (choices.empty()) return absl::OkStatus();
    const std::vector<std::string> best = BestNamed(part, choices);
    if (best.size() > 1) {
      return Ambiguous(part == Part::kEmbedding ? "embedding" : "output", best);
    }
    name = best[0];
    return absl::OkStatus();
  }

  // No module has the part's shape: the one that its name or being alone makes
  // likely is what the error should speak of.
  void GuessByName(Part part, const std::string& other,
                   std::string& name) const {
    std::vector<std::string> likely, rest;
    for (const auto& [prefix, module] : modules_) {
      if (prefix == other) continue;
      rest.push_back(prefix);
      if (Score(part, prefix) > 0) likely.push_back(prefix);
    }
    if (likely.size() == 1) name = likely[0];
    if (likely.empty() && rest.size() == 1 && Score(part, rest[0]) == 0) {
      name = rest[0];
    }
  }

  const Model& model_;
  Modules modules_;
  bool has_output_ = false;
  bool tied_ = false;
  bool bias_ = false;
};

}  // namespace

absl::StatusOr<LibraryNames> FindNames(const Model& model,
                                       const TensorMap& tensors,
                                       const ImportOptions& options) {
  for (const auto& [key, tensor] : tensors) {
    RETURN_IF_ERROR(CheckSupported(key));
  }
  LibraryNames names = DefaultNames(model);
  RETURN_IF_ERROR(FindBlocksOfKind(model, tensors, /*sru=*/true, names));
  RETURN_IF_ERROR(FindBlocksOfKind(model, tensors, /*sru=*/false, names));
  PartFinder finder(model, FindModules(tensors, model, names));
  RETURN_IF_ERROR(finder.Find(options, names));
  return names;
}

}  // namespace recurve
