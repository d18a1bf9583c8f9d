// What the tests of faults train on: small enough that a step takes a few
// milliseconds, with all in it that could go wrong when it is taken up again
// (dropout, accumulation, carried states, shuffling, validation).
#ifndef RECURVE_TESTS_FAULTS_WORKLOAD_H_
#define RECURVE_TESTS_FAULTS_WORKLOAD_H_

#include <cstdint>
#include <string>

#include "proto/recurve/v1/training_config.pb.h"

namespace recurve::faults {

// UTF-8 text of so many characters, always the same.
std::string Text(int64_t characters);
// Lines of tokens below 16 of all lengths up to 40, always the same.
std::string JsonLines(int64_t lines);

// Trains models/`model` on the text dataset `dataset`: streams, Adam,
// accumulation, a checkpoint every other step, validation.
v1::TrainSpec TextSpec(const std::string& model, const std::string& dataset,
                       int64_t steps);
// On JSON lines: shuffled epochs of ragged sequences, two blocks of layers.
v1::TrainSpec SequenceSpec(const std::string& model, const std::string& dataset,
                           int64_t steps);
// Any dataset as bytes: reading its batches reads it all.
v1::TrainSpec BytesSpec(const std::string& dataset);

// A model of its own for CreateModel, with 16 tokens.
v1::ModelConfig SmallConfig();

}  // namespace recurve::faults

#endif  // RECURVE_TESTS_FAULTS_WORKLOAD_H_
