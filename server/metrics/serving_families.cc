#include "server/metrics/serving_families.h"

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

namespace recurve::server {
namespace {

using Versions = std::map<std::string, ServingCounts>;

// "models/lm/versions/3" -> model lm, version 3; other names are models.
Labels LabelsOf(absl::string_view name) {
  constexpr absl::string_view kVersions = "/versions/";
  absl::ConsumePrefix(&name, "models/");
  const size_t split = name.find(kVersions);
  if (split == name.npos) {
    return {{"model", std::string(name)}, {"version", ""}};
  }
  return {{"model", std::string(name.substr(0, split))},
          {"version", std::string(name.substr(split + kVersions.size()))}};
}

// `value` of every version.
template <typename Value>
void Add(Family family, const Versions& versions, const Value& value,
         Families& families) {
  for (const auto& [name, counts] : versions) {
    family.Add(LabelsOf(name), static_cast<double>(value(counts)));
  }
  families.push_back(family.Take());
}

void AddCounts(const Versions& versions, Families& families) {
  Add(
      Family::Counter("nv_inference_request_success",
                      "Number of successful inference requests"),
      versions, [](const auto& counts) { return counts.succeeded.count; },
      families);
  Add(
      Family::Counter("nv_inference_request_failure",
                      "Number of failed inference requests, cancelled and "
                      "refused ones included"),
      versions,
      [](const auto& counts) { return counts.failed.count + counts.refused; },
      families);
  Add(
      Family::Counter("nv_inference_count",
                      "Number of inferences: sequences of successful requests"),
      versions, [](const auto& counts) { return counts.sequences; }, families);
  Add(
      Family::Counter("nv_inference_exec_count",
                      "Number of forward passes, each of many requests"),
      versions, [](const auto& counts) { return counts.passes; }, families);
  Add(
      Family::Gauge("nv_inference_pending_request_count",
                    "Number of requests waiting or under way"),
      versions, [](const auto& counts) { return counts.pending; }, families);
  Add(
      Family::Counter("recurve_requests_cancelled_total",
                      "Requests that their caller or their deadline ended"),
      versions, [](const auto& counts) { return counts.cancelled; }, families);
  Add(
      Family::Counter("recurve_requests_refused_total",
                      "Requests refused at the door: queue full, or a deadline "
                      "that cannot be met"),
      versions, [](const auto& counts) { return counts.refused; }, families);
  Add(
      Family::Counter("recurve_rows_total",
                      "Rows (steps of all sequences) that went through the "
                      "model"),
      versions, [](const auto& counts) { return counts.rows; }, families);
}

void AddTimes(const Versions& versions, Families& families) {
  const auto add = [&](const char* name, const char* help, auto time) {
    Add(
        Family::Counter(name, help), versions,
        [&](const auto& counts) {
          return absl::ToInt64Microseconds(time(counts));
        },
        families);
  };
  add("nv_inference_request_duration_us",
      "Time of requests from their arrival to their answer, in microseconds",
      [](const auto& counts) {
        return counts.succeeded.time + counts.failed.time;
      });
  add("nv_inference_queue_duration_us",
      "Time of successful requests before their first pass, in microseconds",
      [](const auto& counts) { return counts.queue.time; });
  add("nv_inference_compute_input_duration_us",
      "Time of packing their rows and states, in microseconds",
      [](const auto& counts) { return counts.input.time; });
  add("nv_inference_compute_infer_duration_us",
      "Time of their passes on devices, in microseconds",
      [](const auto& counts) { return counts.infer.time; });
  add("nv_inference_compute_output_duration_us",
      "Time of handing out their rows, in microseconds",
      [](const auto& counts) { return counts.output.time; });
}

void AddPassRows(const Versions& versions, Families& families) {
  Family family = Family::Histogram("recurve_pass_rows",
                                    "Rows of forward passes, to powers of two");
  for (const auto& [name, counts] : versions) {
    prometheus::ClientMetric::Histogram histogram;
    for (const auto& [rows, pass] : counts.passes_by_rows) {
      histogram.sample_count += static_cast<uint64_t>(pass.passes);
      histogram.bucket.push_back(
          {histogram.sample_count, static_cast<double>(rows)});
    }
    histogram.sample_sum = static_cast<double>(counts.rows);
    family.Add(LabelsOf(name), std::move(histogram));
  }
  families.push_back(family.Take());
}

}  // namespace

void AddServing(const Versions& versions, Families& families) {
  AddCounts(versions, families);
  AddTimes(versions, families);
  AddPassRows(versions, families);
}

}  // namespace recurve::server
