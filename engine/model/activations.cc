#include "engine/model/activations.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/model/arena.h"

namespace recurve {
namespace {

int64_t InputSize(const Model& model) {
  return model.takes_tokens()
             ? model.config().input().token_embedding().embedding_size()
             : model.feature_size();
}

// Calls f with the columns of the rows between the parts of a model, in order:
// its input, each layer's output, and before it the mapped input of a block
// that maps it.
template <typename F>
void ForEachRowWidth(const Model& model, const F& f) {
  int64_t width = InputSize(model);
  f(width);
  for (const Layer& layer : model.layers()) {
    if (width != layer.input_size()) f(layer.input_size());
    width = layer.channels();
    f(width);
  }
}

// What Model::pool_carry_offset describes, in the rows of `carries`.
PoolCarry PoolCarryIn(const Model& model, Matrix<float> carries) {
  PoolCarry carry;
  if (model.pool_carry_offset() < 0) return carry;
  float* const words = carries.data + model.pool_carry_offset();
  const int64_t rows = carries.rows, channels = model.hidden_channels();
  const int64_t pairs = carries.stride / 2;
  carry.rows = {reinterpret_cast<int64_t*>(words), rows, 1, pairs};
  float* const values = words + 2;
  if (model.pool_kind() == PoolKind::kMean) {
    carry.sums = {reinterpret_cast<double*>(values), rows, channels, pairs};
  } else {
    carry.maxima = {values, rows, channels, carries.stride};
  }
  return carry;
}

// Two places for arrays each of which is made from the one before: they lie in
// them by turns.
class TwoPlaces {
 public:
  // The next array, in floats; all of them come before Take.
  void Add(int64_t size) {
    int64_t& largest = sizes_[added_++ % 2];
    largest = std::max(largest, size);
  }
  void Take(ArenaCursor& cursor) {
    for (int i = 0; i < 2; ++i) places_[i] = cursor.Take<float>(sizes_[i]);
  }

  float* Next() { return places_[turn_++ % 2]; }

 private:
  int64_t sizes_[2] = {};
  int64_t added_ = 0;
  float* places_[2] = {};
  int64_t turn_ = 0;
};

// The rows between the parts of a model: all of them are kept for a backward
// pass; at inference they lie in two places by turns.
class RowBuffers {
 public:
  RowBuffers(ArenaCursor& cursor, Mode mode, int64_t rows, const Model& model)
      : cursor_(cursor), rows_(rows) {
    if (mode != Mode::kInference) return;
    places_.emplace();
    ForEachRowWidth(model, [&](int64_t width) { places_->Add(rows * width); });
    places_->Take(cursor);
  }

  Matrix<float> Next(int64_t cols) {
    if (!places_.has_value()) return cursor_.Take<float>(rows_, cols);
    return {places_->Next(), rows_, cols};
  }

 private:
  ArenaCursor& cursor_;
  const int64_t rows_;
  std::optional<TwoPlaces> places_;
};

class Layouter {
 public:
  Layouter(const Model& model, const PassMemory& pass, void* base,
           std::vector<LayerActivations> reused)
      : model_(model),
        mode_(pass.mode),
        n_(pass.num_rows),
        b_(pass.num_sequences),
        open_ends_(pass.open_ends),
        packed_(pass.packed),
        cursor_(base) {
    a_.layers = std::move(reused);
    a_.layers.clear();
    a_.layers.reserve(model.layers().size());
  }

  Activations Run() {
    a_.num_rows = n_;
    a_.num_sequences = b_;
    a_.output_rows = model_.pools() ? b_ : n_;
    Inputs();
    Layers();
    Outputs();
    if (keeps()) RowGradients();
    if (open_ends_) StateGradients();
    Scratch();
    a_.bytes = cursor_.bytes();
    return std::move(a_);
  }

 private:
  bool keeps() const { return mode_ != Mode::kInference; }
  bool has_loss() const {
    return model_.config().loss().kind() != v1::Loss::KIND_UNSPECIFIED;
  }

  // [rows, cols] if training draws a mask of this probability, else absent.
  Matrix<float> Mask(float probability, int64_t rows, int64_t cols) {
    if (mode_ != Mode::kTraining || probability == 0) return {};
    return cursor_.Take<float>(rows, cols);
  }

  void Inputs() {
    a_.cu_seqlens = cursor_.Take<int64_t>(b_ + 1);
    if (mode_ == Mode::kTraining) a_.positions = cursor_.Take<int64_t>(b_);
    if (model_.takes_tokens()) a_.tokens = cursor_.Take<int32_t>(n_);
    if (keeps()) {
      a_.state_in = cursor_.Take<float>(b_, model_.state_size());
      a_.state_out = cursor_.Take<float>(b_, model_.state_size());
    } else {
      a_.state_in = a_.state_out = cursor_.Take<float>(b_, model_.carry_size());
    }
  }

  void Layers() {
    RowBuffers rows(cursor_, mode_, n_, model_);
    Matrix<float> x = rows.Next(InputSize(model_));
    a_.input = x;
    a_.input_mask = Mask(model_.config().input().dropout(), n_, x.cols);
    for (const Layer& layer : model_.layers()) {
      LayerActivations& l = a_.layers.emplace_back();
      if (x.cols != layer.input_size()) {
        l.block_input = x;
        x = rows.Next(layer.input_size());
      }
      l.x = x;
      l.y = x = rows.Next(layer.channels());
      std::visit([&](const auto& cell) { Cell(layer, cell, l); }, layer.cell);
    }
  }

  void Cell(const Layer& layer, const SruLayer& cell, LayerActivations& l) {
    SruActivations& sru = l.cell.emplace<SruActivations>();
    sru.mask_in = Mask(cell.rnn_dropout, b_, layer.input_size());
    sru.mask_cell = Mask(cell.dropout, b_, layer.channels());
    SruForwardArgs<float>& args = sru.args.forward;
    BindCommon(layer, l, cell.shape, args);
    args.mask_in = sru.mask_in;
    args.mask_cell = sru.mask_cell;
    if (keeps()) ForwardBuffers(cursor_, args);
  }

  void Cell(const Layer& layer, const QrnnLayer& cell, LayerActivations& l) {
    QrnnActivations& qrnn = l.cell.emplace<QrnnActivations>();
    qrnn.zoneout_mask = Mask(cell.shape.zoneout, n_, layer.channels());
    qrnn.dropout_mask = Mask(cell.dropout, n_, layer.channels());
    QrnnForwardArgs<float>& args = qrnn.args.forward;
    BindCommon(layer, l, cell.shape, args);
    args.zoneout_mask = qrnn.zoneout_mask;
    if (layer.x_previous_offset >= 0) {
      const int64_t first = layer.x_previous_offset;
      args.x_previous = a_.state_in.columns(first, layer.input_size());
      args.x_last = a_.state_out.columns(first, layer.input_size());
    }
    if (keeps()) ForwardBuffers(cursor_, args);
  }

  template <typename Shape, typename Args>
  void BindCommon(const Layer& layer, const LayerActivations& l,
                  const Shape& shape, Args& args) {
    args.shape = shape;
    args.layout = a_.layout();
    args.x = l.x;
    args.y = l.y;
    args.c_first = a_.state_in.columns(layer.c_offset, layer.channels());
    args.c_last = a_.state_out.columns(layer.c_offset, layer.channels());
  }

  // [N, cols], absent where nobody reads it.
  Matrix<float> Product(ArenaCursor& cursor, int64_t cols) {
    return packed_ && !keeps() ? Matrix<float>() : cursor.Take<float>(n_, cols);
  }

  // What forward writes and, where it is kept, backward reads.
  void ForwardBuffers(ArenaCursor& cursor, SruForwardArgs<float>& args) {
    const SruShape& shape = args.shape;
    if (shape.layer_norm == NormPlace::kBefore || args.mask_in) {
      args.projection_input = cursor.Take<float>(n_, shape.input_size);
    }
    if (shape.projection_size > 0) {
      args.low_rank = cursor.Take<float>(n_, shape.projection_size);
    }
    args.u = Product(cursor, shape.projected_cols());
    if (!keeps()) return;
    args.c = cursor.Take<float>(n_, shape.channels());
    if (shape.layer_norm == NormPlace::kNone) return;
    args.norm_statistics = cursor.Take<float>(n_, 2);
    if (shape.layer_norm == NormPlace::kBefore) return;
    args.norm_input = cursor.Take<float>(n_, shape.channels());
  }

  void ForwardBuffers(ArenaCursor& cursor, QrnnForwardArgs<float>& args) {
    const QrnnShape& shape = args.shape;
    if (shape.window == 2) {
      args.window_rows =
          cursor.Take<float>(n_, shape.num_directions * 2 * shape.input_size);
    }
    args.u = Product(cursor, shape.projected_cols());
    if (keeps()) args.c = cursor.Take<float>(n_, shape.channels());
  }

  void BackwardBuffers(ArenaCursor& cursor, const LayerActivations&,
                       SruBackwardArgs<float>& args) {
    const SruForwardArgs<float>& forward = args.forward;
    const SruShape& shape = forward.shape;
    args.channel_partials = cursor.Take<float>(b_, 4 * shape.channels());
    if (forward.projection_input) {
      args.dprojection_input = cursor.Take<float>(n_, shape.input_size);
    }
    if (forward.low_rank) {
      args.dlow_rank = cursor.Take<float>(n_, shape.projection_size);
    }
    if (forward.norm_input) {
      args.dnorm_input = cursor.Take<float>(n_, shape.channels());
    }
  }

  void BackwardBuffers(ArenaCursor& cursor, const LayerActivations& layer,
                       QrnnBackwardArgs<float>& args) {
    const QrnnShape& shape = args.forward.shape;
    args.channel_partials = cursor.Take<float>(b_, shape.projected_cols());
    if (shape.window == 1 || !layer.dx) return;
    args.dwindow_rows =
        cursor.Take<float>(n_, shape.num_directions * 2 * shape.input_size);
  }

  // What carries nothing from one layer to the next has one place for all, and
  // the loss, which comes between the passes, the same place.
  void Scratch() {
    ArenaCursor end = cursor_;
    for (LayerActivations& l : a_.layers) {
      ArenaCursor cursor = cursor_;
      std::visit(
          [&](auto& cell) {
            if (keeps()) {
              BackwardBuffers(cursor, l, cell.args);
            } else {
              ForwardBuffers(cursor, cell.args.forward);
            }
          },
          l.cell);
      end.Join(cursor);
    }
    ArenaCursor cursor = cursor_;
    Loss(cursor);
    end.Join(cursor);
    cursor_ = end;
  }

  void Outputs() {
    const int64_t channels = model_.hidden_channels();
    const v1::Output& output = model_.config().output();
    if (model_.pools()) Pool();
    a_.output_mask = Mask(output.dropout(), a_.output_rows, channels);
    if (!output.has_linear()) {
      a_.output = a_.features();
    } else if (open_ends_ || !keeps()) {
      a_.output = cursor_.Take<float>(a_.output_rows, model_.output_size());
    }
    // Is read when the backward pass is over.
    if (keeps() && has_loss()) {
      a_.row_losses = cursor_.Take<float>(a_.output_rows);
    }
  }

  void Pool() {
    const int64_t channels = model_.hidden_channels();
    a_.pooled = cursor_.Take<float>(b_, channels);
    a_.pool.kind = model_.pool_kind();
    a_.pool.layout = a_.layout();
    if (!keeps()) {
      a_.pool.carry = PoolCarryIn(model_, a_.state_out);
    } else if (a_.pool.kind == PoolKind::kMax) {
      a_.pool.argmax = cursor_.Take<int32_t>(b_, channels);
    }
  }

  void Loss(ArenaCursor& cursor) {
    if (!has_loss()) return;
    const int64_t rows = a_.output_rows, cols = model_.output_size();
    if (model_.config().loss().kind() == v1::Loss::CROSS_ENTROPY) {
      a_.target_classes = cursor.Take<int32_t>(rows);
    } else {
      a_.target_values = cursor.Take<float>(rows, cols);
    }
    a_.target_weights = cursor.Take<float>(rows);
    if (!keeps()) a_.row_losses = cursor.Take<float>(rows);
    if (a_.output) return;
    a_.output_tile = cursor.Take<float>(OutputTileRows(rows, cols), cols);
  }

  void RowGradients() {
    TwoPlaces places;
    ForEachRowGradient([&](Matrix<float>&, Matrix<float> of) {
      places.Add(of.rows * of.cols);
    });
    places.Take(cursor_);
    ForEachRowGradient([&](Matrix<float>& view, Matrix<float> of) {
      view = {places.Next(), of.rows, of.cols};
    });
  }

  // Calls f(view, rows that it is the gradient of) in the order of the backward
  // pass.
  template <typename F>
  void ForEachRowGradient(const F& f) {
    if (model_.config().output().has_linear())
      f(a_.dlinear_input, a_.features());
    if (model_.pools()) f(a_.dhidden, a_.hidden());
    const bool wants_dinput = model_.takes_tokens() || open_ends_;
    for (auto layer = a_.layers.rbegin(); layer != a_.layers.rend(); ++layer) {
      const bool first = layer + 1 == a_.layers.rend();
      const bool wanted = !first || wants_dinput;
      if (wanted || layer->block_input) f(layer->dx, layer->x);
      if (wanted && layer->block_input) {
        f(layer->dblock_input, layer->block_input);
      }
    }
  }

  void StateGradients() {
    a_.dstate_in = cursor_.Take<float>(b_, model_.state_size());
    a_.dstate_out = cursor_.Take<float>(b_, model_.state_size());
  }

  const Model& model_;
  const Mode mode_;
  const int64_t n_;
  const int64_t b_;
  const bool open_ends_;
  const bool packed_;
  ArenaCursor cursor_;
  Activations a_;
};

}  // namespace

Activations LayOut(const Model& model, const PassMemory& pass, void* base,
                   std::vector<LayerActivations> reused) {
  return Layouter(model, pass, base, std::move(reused)).Run();
}

}  // namespace recurve
