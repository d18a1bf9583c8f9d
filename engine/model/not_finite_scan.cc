#include "engine/model/not_finite_scan.h"

#include <algorithm>
#include <cmath>

#include "engine/base/finite.h"
#include "engine/model/output.h"
#include "engine/model/passes.h"
#include "engine/model/transfer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

class ActivationScan {
 public:
  ActivationScan(const PassContext& context,
                 const std::vector<int64_t>& cu_seqlens)
      : context_(context),
        model_(context.model),
        places_(model_),
        cu_seqlens_(cu_seqlens),
        a_(context.activations),
        backend_(context.backend) {}

  absl::StatusOr<std::vector<NotFiniteSequence>> Run() {
    RETURN_IF_ERROR(FindSequences());
    if (found_.empty()) return found_;
    RETURN_IF_ERROR(Scan(a_.input, RowsOf::kSteps, places_.input()));
    for (size_t l = 0; l < a_.layers.size(); ++l) {
      RETURN_IF_ERROR(ScanLayer(l));
    }
    RETURN_IF_ERROR(Scan(a_.pooled, RowsOf::kSequences, places_.pooling()));
    RETURN_IF_ERROR(
        ForEachOutputTile(context_, [&](int64_t first, Matrix<float> tile) {
          return Scan(tile, output_rows(), places_.output(), first);
        }));
    return found_;
  }

 private:
  // What a matrix has a row for.
  enum class RowsOf { kSteps, kSequences };

  // Those whose loss or state is not finite, still without their place.
  absl::Status FindSequences() {
    std::vector<float> states;
    RETURN_IF_ERROR(Read(a_.state_out, states));
    std::vector<float> losses;
    RETURN_IF_ERROR(
        Read(Matrix<float>(a_.row_losses, a_.output_rows, 1), losses));
    for (int64_t b = 0; b < a_.num_sequences; ++b) {
      const bool loss = !RowsAreFinite(losses, output_rows(), 1, b);
      const bool state =
          !RowsAreFinite(states, RowsOf::kSequences, model_.state_size(), b);
      if (loss || state) found_.push_back({b, places_.loss(), loss});
    }
    return absl::OkStatus();
  }

  absl::Status ScanLayer(size_t l) {
    const LayerActivations& layer = a_.layers[l];
    if (layer.block_input) {
      RETURN_IF_ERROR(Scan(layer.x, RowsOf::kSteps, places_.before_layer(l)));
    }
    const int place = places_.layer(l);
    const Layer& plan = model_.layers()[l];
    RETURN_IF_ERROR(Scan(a_.state_out.columns(plan.c_offset, plan.channels()),
                         RowsOf::kSequences, place));
    return Scan(layer.y, RowsOf::kSteps, place);
  }

  // `rows` are those from `first` on. Absent ones, and sequences that are not
  // finite at an earlier place, are passed over.
  absl::Status Scan(Matrix<float> rows, RowsOf rows_of, int place,
                    int64_t first = 0) {
    if (!rows) return absl::OkStatus();
    std::vector<float> host;
    RETURN_IF_ERROR(Read(rows, host));
    for (NotFiniteSequence& found : found_) {
      if (found.place > place &&
          !RowsAreFinite(host, rows_of, rows.cols, found.sequence, first)) {
        found.place = place;
      }
    }
    return absl::OkStatus();
  }

  // The rows of sequence b among those in `host`, from `first` on.
  bool RowsAreFinite(const std::vector<float>& host, RowsOf rows_of,
                     int64_t cols, int64_t b, int64_t first = 0) const {
    const bool steps = rows_of == RowsOf::kSteps;
    const int64_t rows = static_cast<int64_t>(host.size()) / cols;
    const auto in_host = [&](int64_t row) {
      return std::clamp<int64_t>(row - first, 0, rows);
    };
    const int64_t begin = in_host(steps ? cu_seqlens_[b] : b);
    const int64_t end = in_host(steps ? cu_seqlens_[b + 1] : b + 1);
    return AllFinite({host.data() + begin * cols,
                      static_cast<size_t>((end - begin) * cols)});
  }
  RowsOf output_rows() const {
    return model_.pools() ? RowsOf::kSequences : RowsOf::kSteps;
  }

  absl::Status Read(Matrix<float> from, std::vector<float>& host) {
    host.resize(from.rows * from.cols);
    for (int64_t r = 0; r < from.rows; ++r) {
      RETURN_IF_ERROR(Download<float>(
          backend_, absl::MakeSpan(host).subspan(r * from.cols, from.cols),
          from.row(r)));
    }
    return absl::OkStatus();
  }

  const PassContext& context_;
  const Model& model_;
  const Places places_;
  const std::vector<int64_t>& cu_seqlens_;
  const Activations& a_;
  Backend& backend_;
  std::vector<NotFiniteSequence> found_;
};

}  // namespace

absl::StatusOr<std::vector<NotFiniteSequence>> ScanActivations(
    const PassContext& context, const std::vector<int64_t>& cu_seqlens) {
  return ActivationScan(context, cu_seqlens).Run();
}

absl::StatusOr<std::optional<int>> ScanGradients(const Model& model,
                                                 Backend& backend,
                                                 const float* gradients,
                                                 int64_t begin, int64_t end) {
  const Places places(model);
  std::optional<int> first;
  for (const Parameter& parameter : model.parameters().parameters()) {
    const int64_t from = std::max(begin, parameter.offset);
    const int64_t to = std::min(end, parameter.offset + parameter.count());
    if (from >= to) continue;
    ASSIGN_OR_RETURN(const double squares,
                     backend.SumOfSquares(gradients + from - begin, to - from));
    if (std::isfinite(squares)) continue;
    first = std::max(first.value_or(0), places.Of(parameter));
  }
  return first;
}

}  // namespace recurve
