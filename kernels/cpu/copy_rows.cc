#include "kernels/cpu/copy_rows.h"

#include <cstdint>
#include <cstring>

#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

namespace recurve::cpu {

absl::Status CopyRows(const CopyRowsArgs& args) {
  RETURN_IF_ERROR(CheckCopyRows(args));
  const int64_t cols = args.to.cols;
  ParallelFor(args.count, args.count * cols, [&](int64_t i) {
    std::memcpy(args.to.row(args.to_rows[i]), args.from.row(args.from_rows[i]),
                cols * sizeof(float));
  });
  return absl::OkStatus();
}

}  // namespace recurve::cpu
