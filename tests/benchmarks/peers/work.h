// What is timed: a piece of work that can be repeated.
#ifndef RECURVE_TESTS_BENCHMARKS_PEERS_WORK_H_
#define RECURVE_TESTS_BENCHMARKS_PEERS_WORK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/schedule/device.h"
#include "kernels/precision.h"

namespace recurve::peers {

// A stack of `layers` of `hidden` channels each, whose input has as many, on
// `batch` sequences of `length` rows.
struct Shape {
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t batch = 0;
  int64_t length = 0;

  int64_t rows() const { return batch * length; }
};

enum class Kind {
  kInference,  // whole sequences, from zero states
  kStep,       // the next row of each sequence; length is 1
  kTraining,   // forward, squared error, backward, Adam's update
};

class Work {
 public:
  virtual ~Work() = default;
  // All of it, `turns` times.
  virtual absl::Status Run(int64_t turns) = 0;
};

// The textproto of the stack; `cell` is "sru" or "qrnn" (window 1, output
// gate).
std::string ConfigText(const std::string& cell, const Shape& shape);

// The engine, on the pool's devices, which outlive the work: inference on the
// first alone, with weights packed at `precision`, training on all, at their
// own. kStep feeds the state after a step to the next.
absl::StatusOr<std::unique_ptr<Work>> EngineWork(DevicePool& pool,
                                                 const std::string& cell,
                                                 Precision precision, Kind kind,
                                                 const Shape& shape);

// The same through a server, one call at a time: Predict with whole sequences,
// or with the next row of a session (batch is 1). InvalidArgument for
// kTraining.
absl::StatusOr<std::unique_ptr<Work>> ServiceWork(const std::string& address,
                                                  const std::string& cell,
                                                  Kind kind,
                                                  const Shape& shape);

// What no layer can do without, on the pool's first device. Products: those of
// all layers, each with a weight matrix of its own and one for all of input
// and output rows; in training also those of the gradients, of the input from
// the second layer on. Copy: so many bytes read or written, half of them each.
std::unique_ptr<Work> ProductsWork(DevicePool& pool, Kind kind,
                                   const Shape& shape);
std::unique_ptr<Work> CopyWork(DevicePool& pool, int64_t moved_bytes);

}  // namespace recurve::peers

#endif  // RECURVE_TESTS_BENCHMARKS_PEERS_WORK_H_
